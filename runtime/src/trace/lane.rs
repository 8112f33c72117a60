//! Span buffers: one writer each, readable at any time.
//!
//! A span is four words in a chunk of atomics. The writer stores the words, then publishes the
//! new length with `Release`; a reader loads the length with `Acquire` and reads only below it.
//! Chunks never move, so neither side ever waits for the other; a lock is taken once per chunk.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Cause, SpanKind};
use crate::task::Label;

const SPAN_WORDS: usize = 4;
const CHUNK_SPANS: usize = 2048;

/// A span as recorded: its name is an index into the recorder's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawSpan {
    pub(crate) kind: SpanKind,
    pub(crate) cause: Cause,
    pub(crate) name: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) label: Label,
}

const KINDS: [SpanKind; 3] = [SpanKind::Task, SpanKind::Idle, SpanKind::Wait];

impl RawSpan {
    fn encode(self) -> [u64; SPAN_WORDS] {
        let kind = KINDS.iter().position(|k| *k == self.kind).unwrap_or(0) as u64;
        let cause = self.cause.index().map_or(0, |i| i as u64 + 1);
        let layer = self.label.layer.map_or(0, |n| u64::from(n) + 1);
        let shard = self.label.shard.map_or(0, |n| u64::from(n) + 1);
        let batch = self.label.batch.map_or(0, |n| u64::from(n) + 1);
        // `None` is one value more than the type has, hence 33 bits for the batch and 17 for the
        // layer; shards get the remaining 14 (a batch is never cut into 16,383 of them).
        [
            self.start,
            self.end,
            u64::from(self.name) | kind << 32 | cause << 40,
            batch | layer << 33 | shard.min(0x3fff) << 50,
        ]
    }

    fn decode(words: [u64; SPAN_WORDS]) -> Self {
        let [start, end, what, label] = words;
        let cause = (what >> 40) as usize & 0xff;
        let one_less = |n: u64| n.checked_sub(1);
        RawSpan {
            kind: KINDS[(what >> 32) as usize & 0xff],
            cause: if cause == 0 { Cause::None } else { Cause::ALL[cause - 1] },
            name: what as u32,
            start,
            end,
            label: Label {
                batch: one_less(label & ((1 << 33) - 1)).map(|n| n as u32),
                layer: one_less(label >> 33 & ((1 << 17) - 1)).map(|n| n as u16),
                shard: one_less(label >> 50).map(|n| n as u16),
            },
        }
    }
}

struct Chunk {
    words: Box<[AtomicU64]>,
    spans: AtomicUsize,
}

impl Chunk {
    fn new() -> Arc<Self> {
        let words = (0..CHUNK_SPANS * SPAN_WORDS).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Chunk { words, spans: AtomicUsize::new(0) })
    }

    fn read(&self, index: usize) -> RawSpan {
        let words = &self.words[index * SPAN_WORDS..][..SPAN_WORDS];
        RawSpan::decode(std::array::from_fn(|i| words[i].load(Ordering::Relaxed)))
    }
}

/// The readable side of a lane.
pub(crate) struct LaneBuffer {
    chunks: Mutex<Chunks>,
    most_chunks: usize,
    dropped: AtomicU64,
}

struct Chunks {
    list: Vec<Arc<Chunk>>,
    /// Spans at the front of the first chunk that were read already.
    taken: usize,
}

/// The writing side of a lane; one per buffer.
pub(crate) struct LaneWriter {
    buffer: Arc<LaneBuffer>,
    chunk: Option<Arc<Chunk>>,
}

impl LaneBuffer {
    /// A buffer for at most about `capacity` spans that were not taken, and its writer.
    pub(crate) fn new(capacity: usize) -> (Arc<Self>, LaneWriter) {
        let buffer = Arc::new(LaneBuffer {
            chunks: Mutex::new(Chunks { list: Vec::new(), taken: 0 }),
            most_chunks: capacity.div_ceil(CHUNK_SPANS).max(1),
            dropped: AtomicU64::new(0),
        });
        let writer = LaneWriter { buffer: buffer.clone(), chunk: None };
        (buffer, writer)
    }

    /// Takes all spans recorded so far out of the buffer.
    pub(crate) fn take(&self, mut each: impl FnMut(RawSpan)) {
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut from = chunks.taken;
        let last = chunks.list.len().saturating_sub(1);
        let mut taken = 0;
        for (i, chunk) in chunks.list.iter().enumerate() {
            let published = chunk.spans.load(Ordering::Acquire);
            (from..published).for_each(|index| each(chunk.read(index)));
            from = 0;
            if i == last {
                taken = published;
            }
        }
        // The newest chunk stays: the writer may still fill it.
        chunks.list.drain(..last);
        chunks.taken = taken;
    }

    /// Spans lost since the last call because the buffer was full.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    fn add_chunk(&self) -> Option<Arc<Chunk>> {
        let mut chunks = self.chunks.lock().unwrap_or_else(PoisonError::into_inner);
        if chunks.list.len() >= self.most_chunks {
            return None;
        }
        let chunk = Chunk::new();
        chunks.list.push(chunk.clone());
        Some(chunk)
    }
}

impl LaneWriter {
    pub(crate) fn write(&mut self, span: RawSpan) {
        let full = |chunk: &Arc<Chunk>| chunk.spans.load(Ordering::Relaxed) == CHUNK_SPANS;
        if self.chunk.as_ref().is_none_or(full) {
            match self.buffer.add_chunk() {
                Some(chunk) => self.chunk = Some(chunk),
                None => {
                    self.buffer.dropped.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            }
        }
        if let Some(chunk) = &self.chunk {
            let index = chunk.spans.load(Ordering::Relaxed);
            for (place, word) in chunk.words[index * SPAN_WORDS..].iter().zip(span.encode()) {
                place.store(word, Ordering::Relaxed);
            }
            chunk.spans.store(index + 1, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn span(start: u64) -> RawSpan {
        RawSpan {
            kind: SpanKind::Task,
            cause: Cause::None,
            name: 7,
            start,
            end: start + 1,
            label: Label { batch: Some(u32::MAX), layer: Some(u16::MAX), shard: None },
        }
    }

    #[test]
    fn encoding_keeps_every_field() {
        for kind in KINDS {
            for cause in Cause::ALL.into_iter().chain([Cause::None]) {
                for label in [
                    Label::default(),
                    Label { batch: Some(0), layer: Some(0), shard: Some(0) },
                    Label { batch: Some(u32::MAX), layer: Some(u16::MAX), shard: Some(16_000) },
                ] {
                    let raw =
                        RawSpan { kind, cause, name: u32::MAX, start: u64::MAX, end: 0, label };
                    assert_eq!(RawSpan::decode(raw.encode()), raw);
                }
            }
        }
    }

    #[test]
    fn taking_in_the_middle_loses_nothing() {
        let (buffer, mut writer) = LaneBuffer::new(usize::MAX);
        let mut seen = Vec::new();
        for start in 0..3 * CHUNK_SPANS as u64 + 5 {
            writer.write(span(start));
            if start % 1000 == 0 {
                buffer.take(|s| seen.push(s.start));
            }
        }
        buffer.take(|s| seen.push(s.start));
        assert_eq!(seen, (0..3 * CHUNK_SPANS as u64 + 5).collect::<Vec<_>>());
        buffer.take(|_| panic!("nothing is left"));
    }

    #[test]
    fn a_full_buffer_says_what_it_lost() {
        let (buffer, mut writer) = LaneBuffer::new(CHUNK_SPANS);
        (0..CHUNK_SPANS as u64 + 3).for_each(|start| writer.write(span(start)));
        let mut count = 0;
        buffer.take(|_| count += 1);
        assert_eq!((count, buffer.take_dropped()), (CHUNK_SPANS, 3));
    }

    #[test]
    fn a_reader_never_sees_half_a_span() {
        let (buffer, mut writer) = LaneBuffer::new(usize::MAX);
        let total = 20_000;
        let thread = std::thread::spawn(move || (0..total).for_each(|i| writer.write(span(i))));
        let mut next = 0;
        while next < total {
            buffer.take(|s| {
                assert_eq!((s.start, s.end), (next, next + 1));
                next += 1;
            });
        }
        thread.join().expect("writer");
    }
}
