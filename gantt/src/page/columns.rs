//! Spans as a page stores them.
//!
//! Lane by lane, each span before those that it holds; one column after the other: start, length,
//! number of what it is, batch, layer, shard, place in submission order. A column holds whole
//! numbers of seven bits a byte, the lowest first, where the top bit says that more follow. All
//! columns but length and what it is hold differences from the span before, whose sign is in the
//! lowest bit; -1 stands for a value that is not known. The whole is compressed (gzip) and
//! written as base64.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use millrace_runtime::trace::{Span, Trace};

use super::head::Whats;
use crate::GanttError;
use crate::segment::by_lane;

/// The spans of a checked trace.
pub(super) fn pack(trace: &Trace, whats: &Whats) -> Result<String, GanttError> {
    let spans: Vec<&Span> = by_lane(trace).into_iter().flatten().collect();
    let mut bytes = Vec::with_capacity(spans.len() * 12);
    let number = |value: Option<u64>| value.map_or(-1, |value| value as i64);
    differences(&mut bytes, spans.iter().map(|span| span.start as i64));
    for span in &spans {
        put(&mut bytes, span.duration());
    }
    for span in &spans {
        put(&mut bytes, u64::from(whats.number(trace, span)));
    }
    differences(&mut bytes, spans.iter().map(|span| number(span.batch.map(u64::from))));
    differences(&mut bytes, spans.iter().map(|span| number(span.layer.map(u64::from))));
    differences(&mut bytes, spans.iter().map(|span| number(span.shard.map(u64::from))));
    differences(&mut bytes, spans.iter().map(|span| number(span.sequence)));
    let failed = |error: std::io::Error| GanttError::Draw(error.to_string());
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&bytes).map_err(failed)?;
    Ok(STANDARD.encode(packed.finish().map_err(failed)?))
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn differences(bytes: &mut Vec<u8>, values: impl Iterator<Item = i64>) {
    let mut before = 0;
    for value in values {
        let difference: i64 = value - before;
        put(bytes, ((difference << 1) ^ (difference >> 63)) as u64);
        before = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_seven_bits_a_byte() {
        let mut bytes = Vec::new();
        put(&mut bytes, 127);
        put(&mut bytes, 300);
        assert_eq!(bytes, [127, 0b1010_1100, 0b10]);
    }

    #[test]
    fn differences_keep_their_sign_in_the_lowest_bit() {
        let mut bytes = Vec::new();
        differences(&mut bytes, [-1, 3, 2].into_iter());
        assert_eq!(bytes, [1, 8, 1]);
    }
}
