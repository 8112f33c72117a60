//! Spans as they are recorded, in four words.

use super::{Cause, SpanKind};
use crate::task::Label;

/// Words of a span.
pub(super) const SPAN_WORDS: usize = 4;

/// A span as recorded: its name is an index into the recorder's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawSpan {
    pub(crate) kind: SpanKind,
    pub(crate) cause: Cause,
    pub(crate) name: u32,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) label: Label,
    /// The task's place in submission order. Not kept of a body that takes 18 minutes or more.
    pub(crate) sequence: Option<u64>,
}

/// In the order of their numbers.
const KINDS: [SpanKind; 3] = [SpanKind::Task, SpanKind::Idle, SpanKind::Wait];

/// The number that stands for the kind of a task with its place in submission order. Such a span
/// has no cause, and its length in place of its end; the place takes what room both leave.
const PLACED: u64 = 3;
const LENGTH_BITS: u32 = 40;
const CAUSE_SHIFT: u32 = 34;
const PLACE_LOW_BITS: u32 = 64 - CAUSE_SHIFT;
const PLACE_BITS: u32 = PLACE_LOW_BITS + 64 - LENGTH_BITS;

impl RawSpan {
    /// The second word, and what stands above the name in the third.
    fn encode_end(self) -> (u64, u64) {
        let length = self.end.wrapping_sub(self.start);
        match self.sequence {
            Some(place) if length >> LENGTH_BITS == 0 && place >> PLACE_BITS == 0 => {
                let high = place >> PLACE_LOW_BITS;
                (length | high << LENGTH_BITS, PLACED << 32 | place << CAUSE_SHIFT)
            }
            _ => (self.end, (self.kind as u64) << 32 | (self.cause as u64) << CAUSE_SHIFT),
        }
    }

    pub(super) fn encode(self) -> [u64; SPAN_WORDS] {
        let (end, what) = self.encode_end();
        let layer = self.label.layer.map_or(0, |n| u64::from(n) + 1);
        let shard = self.label.shard.map_or(0, |n| u64::from(n) + 1);
        let batch = self.label.batch.map_or(0, |n| u64::from(n) + 1);
        // `None` is one value more than the type has, hence 33 bits for the batch and 17 for the
        // layer; shards get the remaining 14 (a batch is never cut into 16,383 of them).
        [
            self.start,
            end,
            u64::from(self.name) | what,
            batch | layer << 33 | shard.min(0x3fff) << 50,
        ]
    }

    pub(super) fn decode(words: [u64; SPAN_WORDS]) -> Self {
        let [start, end, what, label] = words;
        let one_less = |n: u64| n.checked_sub(1);
        let (kind, rest) = (what >> 32 & 3, what >> CAUSE_SHIFT);
        let (kind, cause, end, sequence) = if kind == PLACED {
            let place = rest | end >> LENGTH_BITS << PLACE_LOW_BITS;
            let length = end & ((1 << LENGTH_BITS) - 1);
            (SpanKind::Task, Cause::None, start + length, Some(place))
        } else {
            let cause = one_less(rest).map_or(Cause::None, |cause| Cause::ALL[cause as usize]);
            (KINDS[kind as usize], cause, end, None)
        };
        RawSpan {
            kind,
            cause,
            name: what as u32,
            start,
            end,
            sequence,
            label: Label {
                batch: one_less(label & ((1 << 33) - 1)).map(|n| n as u32),
                layer: one_less(label >> 33 & ((1 << 17) - 1)).map(|n| n as u16),
                shard: one_less(label >> 50).map(|n| n as u16),
            },
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn encoding_keeps_every_field() {
        for kind in KINDS {
            for cause in Cause::ALL.into_iter().chain([Cause::None]) {
                for label in [
                    Label::default(),
                    Label { batch: Some(0), layer: Some(0), shard: Some(0) },
                    Label { batch: Some(u32::MAX), layer: Some(u16::MAX), shard: Some(16_000) },
                ] {
                    let (name, start, end, sequence) = (u32::MAX, u64::MAX, 0, None);
                    let raw = RawSpan { kind, cause, name, start, end, label, sequence };
                    assert_eq!(RawSpan::decode(raw.encode()), raw);
                }
            }
        }
    }

    #[test]
    fn encoding_keeps_the_place_of_a_task_that_ends_in_time() {
        for (length, place, kept) in [
            (0, 0, true),
            ((1 << 40) - 1, (1 << 54) - 1, true),
            (1 << 40, 7, false),
            (1, 1 << 54, false),
        ] {
            let (kind, cause, name) = (SpanKind::Task, Cause::None, 7);
            let label = Label { batch: Some(u32::MAX), layer: Some(u16::MAX), shard: None };
            let (start, end, given) = (u64::MAX - length, u64::MAX, Some(place));
            let raw = RawSpan { kind, cause, name, start, end, label, sequence: given };
            let sequence = kept.then_some(place);
            assert_eq!(RawSpan::decode(raw.encode()), RawSpan { sequence, ..raw });
        }
    }
}
