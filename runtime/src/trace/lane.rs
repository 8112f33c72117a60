//! Span buffers: one writer each, readable at any time.
//!
//! The spans of a lane are numbered. A span is four words in a chunk of atomics; chunk `k` holds
//! the spans from `k * CHUNK_SPANS` on. The writer stores the words, then publishes the number
//! of spans written with `Release`; a reader loads it with `Acquire` and reads only below it. A
//! chunk is never written twice, so neither side ever waits for the other: a lock is taken once
//! per chunk and per reading, to look at the list of chunks.
//!
//! A lane keeps at most its capacity of spans that no reader has taken. Beyond that it either
//! refuses new ones ([`Keep::Oldest`]) or gives up the oldest ([`Keep::Newest`]), and counts
//! what it lost:
//!
//! * *Oldest*: the writer compares the number of spans written with the number taken, which it
//!   looks up only when the room that it knows of is used up.
//! * *Newest*: the writer stores every span. A reader skips what is older than the capacity,
//!   and the writer drops chunks of which nothing can be wanted any more when it adds one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Keep;
use super::raw_span::{RawSpan, SPAN_WORDS};

const CHUNK_SPANS: u64 = 2048;

struct Chunk(Box<[AtomicU64]>);

impl Chunk {
    fn new() -> Arc<Self> {
        let words = 0..CHUNK_SPANS as usize * SPAN_WORDS;
        Arc::new(Chunk(words.map(|_| AtomicU64::new(0)).collect()))
    }

    /// The words of a span, by its number in the lane.
    fn words(&self, number: u64) -> &[AtomicU64] {
        &self.0[(number % CHUNK_SPANS) as usize * SPAN_WORDS..][..SPAN_WORDS]
    }

    fn write(&self, number: u64, span: RawSpan) {
        for (place, word) in self.words(number).iter().zip(span.encode()) {
            place.store(word, Ordering::Relaxed);
        }
    }

    fn read(&self, number: u64) -> RawSpan {
        let words = self.words(number);
        RawSpan::decode(std::array::from_fn(|i| words[i].load(Ordering::Relaxed)))
    }
}

/// The readable side of a lane.
pub(crate) struct LaneBuffer {
    capacity: u64,
    keep: Keep,
    /// Spans written, by the writer.
    written: AtomicU64,
    /// Spans that the writer refused since the last reading.
    refused: AtomicU64,
    /// Spans that readers have taken or skipped; for the writer.
    taken: AtomicU64,
    /// The same for readers, of which there is one at a time.
    reader: Mutex<u64>,
    chunks: Mutex<Chunks>,
}

/// Consecutive chunks.
struct Chunks {
    /// The first one's number, unless the list is empty.
    first: u64,
    list: VecDeque<Arc<Chunk>>,
}

impl Chunks {
    /// Drops chunks in which every span is older than `number`.
    fn drop_before(&mut self, number: u64) {
        while !self.list.is_empty() && (self.first + 1) * CHUNK_SPANS <= number {
            self.list.pop_front();
            self.first += 1;
        }
    }
}

/// The writing side of a lane; one per buffer.
pub(crate) struct LaneWriter {
    buffer: Arc<LaneBuffer>,
    /// The chunk of the last span written.
    chunk: Option<Arc<Chunk>>,
    written: u64,
    /// Spans may be written up to this number without a look at what was taken.
    room: u64,
}

impl LaneBuffer {
    /// A buffer for at most `capacity` spans that were not taken, and its writer.
    pub(crate) fn new(capacity: usize, keep: Keep) -> (Arc<Self>, LaneWriter) {
        let buffer = Arc::new(LaneBuffer {
            capacity: capacity as u64,
            keep,
            written: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            reader: Mutex::new(0),
            chunks: Mutex::new(Chunks { first: 0, list: VecDeque::new() }),
        });
        let room = if keep == Keep::Newest { u64::MAX } else { buffer.capacity };
        let writer = LaneWriter { buffer: buffer.clone(), chunk: None, written: 0, room };
        (buffer, writer)
    }

    fn chunks(&self) -> MutexGuard<'_, Chunks> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all spans that are kept out of the buffer; returns how many were lost since the
    /// last time.
    pub(crate) fn take(&self, mut each: impl FnMut(RawSpan)) -> u64 {
        let mut taken = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let (written, first, list) = {
            let chunks = self.chunks();
            // Under the lock: so no chunk is dropped that this reading wants.
            let written = self.written.load(Ordering::Acquire);
            (written, chunks.first, chunks.list.clone())
        };
        let oldest = match self.keep {
            Keep::Oldest => 0,
            Keep::Newest => written.saturating_sub(self.capacity),
        };
        let from = taken.max(oldest);
        let lost = from - *taken + self.refused.swap(0, Ordering::Relaxed);
        for number in from..written {
            each(list[(number / CHUNK_SPANS - first) as usize].read(number));
        }
        *taken = written;
        self.taken.store(written, Ordering::Relaxed);
        self.chunks().drop_before(written);
        lost
    }

    /// Adds the chunk of the span `number`, the next one to be written.
    fn add_chunk(&self, number: u64) -> Arc<Chunk> {
        let chunk = Chunk::new();
        let mut chunks = self.chunks();
        if self.keep == Keep::Newest {
            chunks.drop_before(number.saturating_sub(self.capacity));
        }
        if chunks.list.is_empty() {
            chunks.first = number / CHUNK_SPANS;
        }
        chunks.list.push_back(chunk.clone());
        chunk
    }
}

impl LaneWriter {
    #[inline]
    pub(crate) fn write(&mut self, span: RawSpan) {
        let number = self.written;
        if number >= self.room && !self.has_room() {
            return;
        }
        match &self.chunk {
            Some(chunk) if !number.is_multiple_of(CHUNK_SPANS) => chunk.write(number, span),
            _ => self.write_first(number, span),
        }
        self.written = number + 1;
        self.buffer.written.store(number + 1, Ordering::Release);
    }

    /// Writes the first span of a chunk.
    #[cold]
    fn write_first(&mut self, number: u64, span: RawSpan) {
        // The old chunk first: a reader may be the last to hold it.
        self.chunk = None;
        let chunk = self.buffer.add_chunk(number);
        chunk.write(number, span);
        self.chunk = Some(chunk);
    }

    /// Whether spans were taken since the last look, so that there is room; else counts a span
    /// as refused.
    #[cold]
    fn has_room(&mut self) -> bool {
        let buffer = &self.buffer;
        self.room = buffer.taken.load(Ordering::Relaxed).saturating_add(buffer.capacity);
        let room = self.written < self.room;
        if !room {
            buffer.refused.fetch_add(1, Ordering::Relaxed);
        }
        room
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::task::Label;
    use crate::trace::{Cause, SpanKind};
    use proptest::prelude::*;

    fn span(start: u64) -> RawSpan {
        RawSpan {
            kind: SpanKind::Task,
            cause: Cause::None,
            name: 7,
            start,
            end: start + 1,
            label: Label { batch: Some(u32::MAX), layer: Some(u16::MAX), shard: None },
            sequence: Some(start),
        }
    }

    fn starts(buffer: &LaneBuffer) -> (Vec<u64>, u64) {
        let mut seen = Vec::new();
        let lost = buffer.take(|span| seen.push(span.start));
        (seen, lost)
    }

    #[test]
    fn taking_in_the_middle_loses_nothing() {
        for keep in [Keep::Oldest, Keep::Newest] {
            let (buffer, mut writer) = LaneBuffer::new(usize::MAX, keep);
            let mut seen = Vec::new();
            for start in 0..3 * CHUNK_SPANS + 5 {
                writer.write(span(start));
                if start % 1000 == 0 {
                    assert_eq!(buffer.take(|s| seen.push(s.start)), 0);
                }
            }
            assert_eq!(buffer.take(|s| seen.push(s.start)), 0);
            assert_eq!(seen, (0..3 * CHUNK_SPANS + 5).collect::<Vec<_>>());
            assert_eq!(starts(&buffer), (Vec::new(), 0), "nothing is left");
        }
    }

    #[test]
    fn a_full_buffer_says_what_it_lost() {
        for (keep, kept) in [(Keep::Oldest, 0..5000), (Keep::Newest, 3..5003)] {
            let (buffer, mut writer) = LaneBuffer::new(5000, keep);
            (0..5003).for_each(|start| writer.write(span(start)));
            assert_eq!(starts(&buffer), (kept.collect::<Vec<_>>(), 3));
            writer.write(span(9));
            assert_eq!(starts(&buffer), (vec![9], 0), "{keep:?}: there is room again");
        }
    }

    #[test]
    fn memory_is_bounded_by_the_capacity() {
        for keep in [Keep::Oldest, Keep::Newest] {
            let (buffer, mut writer) = LaneBuffer::new(3 * CHUNK_SPANS as usize, keep);
            for start in 0..20 * CHUNK_SPANS {
                writer.write(span(start));
                assert!(buffer.chunks().list.len() <= 4);
            }
            starts(&buffer);
            assert_eq!(buffer.chunks().list.len(), 0, "whole chunks are given back");
        }
    }

    /// What the buffer is to do, on a list.
    fn model(kept: &mut VecDeque<u64>, capacity: usize, keep: Keep, start: u64) -> u64 {
        kept.push_back(start);
        if kept.len() <= capacity {
            return 0;
        }
        match keep {
            Keep::Oldest => kept.pop_back(),
            Keep::Newest => kept.pop_front(),
        };
        1
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn exactly_the_oldest_or_the_newest_remain(
            // Rounds of so many spans, after each of which a reader takes what is there.
            rounds in prop::collection::vec(0u64..6000, 1..5),
            capacity in prop_oneof![0usize..5, 0usize..7000],
            newest in any::<bool>(),
        ) {
            let keep = if newest { Keep::Newest } else { Keep::Oldest };
            let (buffer, mut writer) = LaneBuffer::new(capacity, keep);
            let mut start = 0;
            for spans in rounds {
                let (mut kept, mut lost) = (VecDeque::new(), 0);
                for _ in 0..spans {
                    writer.write(span(start));
                    lost += model(&mut kept, capacity, keep, start);
                    start += 1;
                }
                prop_assert_eq!(lost, spans.saturating_sub(capacity as u64));
                prop_assert_eq!(starts(&buffer), (Vec::from(kept), lost));
            }
        }
    }

    #[test]
    fn a_reader_beside_the_writer_sees_whole_spans_in_order_and_knows_of_all() {
        let total = 30_000;
        for (keep, capacity) in [
            (Keep::Oldest, usize::MAX),
            (Keep::Oldest, 100),
            (Keep::Newest, 100),
            (Keep::Newest, 5000),
        ] {
            let (buffer, mut writer) = LaneBuffer::new(capacity, keep);
            let thread = std::thread::spawn(move || (0..total).for_each(|i| writer.write(span(i))));
            let (mut seen, mut lost, mut next) = (0, 0, 0);
            let mut take = || {
                let mut here = 0;
                lost += buffer.take(|s| {
                    assert!(s.start >= next && s.end == s.start + 1, "{} after {next}", s.start);
                    next = s.start + 1;
                    here += 1;
                });
                assert!(here <= capacity);
                seen += here as u64;
                seen + lost
            };
            while take() < total {
                std::hint::spin_loop();
            }
            thread.join().expect("writer");
            assert_eq!(take(), total, "{keep:?} {capacity}");
        }
    }
}
