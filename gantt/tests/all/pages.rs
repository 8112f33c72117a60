//! What pages hold, read back from the documents.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use millrace_gantt::{GanttError, Page};
use millrace_runtime::trace::{Cause, Span, SpanKind, Trace};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{self, Plan, dense, empty, simulate, span};

/// The text of the element with this id.
fn element<'p>(page: &'p str, id: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("id=\"{id}\">")).expect("the element");
    rest.split_once("</script>").expect("its end").0
}

fn head(page: &str) -> Value {
    serde_json::from_str(element(page, "head")).expect("JSON")
}

/// Reads numbers of seven bits a byte, as the page does.
struct Numbers(std::vec::IntoIter<u8>);

impl Numbers {
    fn of(page: &str, run: usize) -> Self {
        let packed = STANDARD.decode(element(page, &format!("run-{run}"))).expect("base64");
        let mut bytes = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("gzip");
        Numbers(bytes.into_iter())
    }

    fn next(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.0.next().expect("another byte");
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return value;
            }
        }
        panic!("a number of more than 64 bits");
    }

    fn sums(&mut self, count: usize) -> Vec<i64> {
        let mut sum = 0;
        let mut next = || {
            let value = self.next();
            sum += (value >> 1) as i64 ^ -((value & 1) as i64);
            sum
        };
        (0..count).map(|_| next()).collect()
    }
}

/// The spans of a run, as far as pages know them.
fn spans(page: &str, run: usize) -> Vec<Span> {
    let head = &head(page)["runs"][run];
    let per_lane = head["lanes"].as_array().expect("lanes").iter();
    let lanes: Vec<u32> = per_lane
        .zip(0..)
        .flat_map(|(lane, index)| vec![index; lane["spans"].as_u64().expect("a number") as usize])
        .collect();
    let mut numbers = Numbers::of(page, run);
    let starts = numbers.sums(lanes.len());
    let lengths: Vec<u64> = lanes.iter().map(|_| numbers.next()).collect();
    let whats: Vec<u64> = lanes.iter().map(|_| numbers.next()).collect();
    let [batch, layer, shard, sequence] = [(); 4].map(|()| numbers.sums(lanes.len()));
    assert_eq!(numbers.0.next(), None, "all bytes are read");
    let known = |value: i64| u64::try_from(value).ok();
    let span = |i: usize| {
        let what = &head["whats"][whats[i] as usize];
        let kind = [SpanKind::Task, SpanKind::Idle, SpanKind::Wait];
        let words = what[1].as_str().expect("a cause");
        let cause = Cause::ALL.into_iter().find(|cause| cause.label() == words);
        Span {
            lane: lanes[i],
            kind: kind[what[0].as_u64().expect("a kind") as usize],
            name: what[2].as_u64().expect("a name") as u32,
            start: starts[i] as u64,
            end: starts[i] as u64 + lengths[i],
            cause: cause.unwrap_or_default(),
            batch: known(batch[i]).map(|n| n as u32),
            layer: known(layer[i]).map(|n| n as u16),
            shard: known(shard[i]).map(|n| n as u16),
            sequence: known(sequence[i]),
        }
    };
    (0..lanes.len()).map(span).collect()
}

fn sorted(mut spans: Vec<Span>) -> Vec<String> {
    spans.sort_by_key(|s| (s.lane, s.start, s.end, s.name));
    let mut words: Vec<String> = spans.iter().map(|span| format!("{span:?}")).collect();
    words.sort();
    words
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_page_holds_every_span(
        seeds in prop::collection::vec((0u32..3, any::<[u32; 4]>(), 0u64..1 << 51), 1..60),
    ) {
        let mut trace = empty("random");
        trace.lanes = support::lanes(2);
        trace.names = vec!["a".into(), "b".into()];
        trace.spans = seeds.into_iter().map(|(lane, [a, b, c, d], start)| {
            let task = a % 3 == 0;
            let cause = if task { Cause::None } else { Cause::ALL[(b % 8) as usize] };
            let kind = if task { SpanKind::Task } else { SpanKind::Wait };
            Span {
                batch: (c % 2 == 0).then_some(c),
                layer: (d % 3 == 0).then_some(d as u16),
                shard: (d % 5 == 0).then_some(b as u16),
                sequence: (d % 7 > 0).then_some(u64::from(a) << 20),
                ..span(lane, kind, c % 2, cause, (start, start + u64::from(d)))
            }
        }).collect();
        let page = Page::new(&trace).render().expect("a page");
        prop_assert_eq!(sorted(spans(&page, 0)), sorted(trace.spans));
    }
}

#[test]
fn a_span_takes_some_bytes() {
    let page = Page::new(&dense(8, 100_000)).render().expect("a page");
    assert!(page.len() < 800_000, "{} bytes", page.len());
}

#[test]
fn a_page_asks_for_no_other_file() {
    let trace = simulate(&Plan::new("single/naive", 2, 5));
    let page = Page::new(&trace).render().expect("a page");
    assert!(page.contains("default-src 'none'"));
    for word in ["http:", "https:", "src=", "@import", "url(", "fetch(", "{{"] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn text_of_a_trace_stays_text() {
    let mut trace = simulate(&Plan::new("</script><script>alert(1)</script>", 2, 1));
    trace.names[0] = "<!-- {{head}} -->".into();
    trace.meta.insert("<b>".into(), "</script>".into());
    let page = Page::new(&trace).render().expect("a page");
    let plain = Page::new(&simulate(&Plan::new("plain", 2, 1))).render().expect("a page");
    assert_eq!(page.matches("<script").count(), plain.matches("<script").count());
    assert_eq!(page.matches("</script").count(), plain.matches("</script").count());
    let head = head(&page);
    assert_eq!(head["title"], trace.title);
    assert_eq!(head["runs"][0]["names"][0], trace.names[0]);
}

#[test]
fn pages_warn_of_holes_and_overlaps() {
    let mut trace: Trace = simulate(&Plan::new("single/naive", 1, 1));
    let warnings = |trace: &Trace| {
        let page = Page::new(trace).render().expect("a page");
        head(&page)["runs"][0]["warnings"].to_string()
    };
    assert_eq!(warnings(&trace), "[]");
    trace.dropped = 7;
    let mut twice = trace.spans[2];
    twice.end += 1;
    trace.spans.push(twice);
    let words = warnings(&trace);
    assert!(words.contains("7 spans were lost"), "{words}");
    assert!(words.contains("overlap others of their lane"), "{words}");
}

#[test]
fn pages_refuse_what_they_cannot_show() {
    let trace = simulate(&Plan::new("single/naive", 1, 2));
    let none = Page::new(&trace).batches(8..9).render();
    assert!(matches!(none, Err(GanttError::NoBatch { from: 8, .. })), "{none:?}");
    assert!(matches!(Page::new(&empty("e")).render(), Err(GanttError::NoSpans { .. })));
    let mut bad = trace.clone();
    bad.spans[0].name = 99;
    let page = Page::new(&trace).beside(&bad).render();
    assert!(matches!(page, Err(GanttError::Span { .. })), "{page:?}");
}
