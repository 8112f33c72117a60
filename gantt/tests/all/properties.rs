//! Properties of summaries and figures of random traces.

use millrace_gantt::{Activity, Chart, Comparison, Summary, compare};
use millrace_runtime::trace::{Cause, LaneKind, Mark, MarkKind, Span, SpanKind, Trace};
use proptest::collection::vec;
use proptest::prelude::*;
use roxmltree::Document;

use crate::support;

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![Just(Cause::None), proptest::sample::select(Cause::ALL.to_vec())]
}

fn kind() -> impl Strategy<Value = SpanKind> {
    prop_oneof![Just(SpanKind::Task), Just(SpanKind::Idle), Just(SpanKind::Wait)]
}

/// Times on very different scales.
fn scale() -> impl Strategy<Value = u64> {
    proptest::sample::select(vec![1u64, 3, 1000, 10_000_000, 1 << 40])
}

prop_compose! {
    fn trace()(
        workers in 0u32..6,
        scale in scale(),
        names in vec(".{0,12}", 1..6),
        spans in vec((0u32..7, kind(), 0u32..6, 0u64..2000, 0u64..40, cause(), proptest::option::of(0u32..5)), 0..300),
        marks in vec((0u64..2000, any::<bool>()), 0..20),
        title in ".{0,60}",
    ) -> Trace {
        let mut trace = support::empty(&title);
        trace.lanes = support::lanes(workers);
        trace.spans = spans.into_iter().map(|(lane, kind, name, start, length, cause, batch)| Span {
            batch,
            ..support::span(
                lane % (workers + 1),
                kind,
                name % names.len() as u32,
                cause,
                (start * scale, (start + length) * scale),
            )
        }).collect();
        trace.names = names;
        trace.marks = marks.into_iter().enumerate().map(|(index, (time, epoch))| Mark {
            time: time * scale,
            kind: if epoch { MarkKind::Epoch } else { MarkKind::Batch },
            index: index as u32,
        }).collect();
        trace
    }
}

/// What each nanosecond of a lane belongs to, the slow way: the span that started last.
fn busy_by_nanosecond(trace: &Trace, lane: u32) -> u64 {
    let spans: Vec<&Span> = trace.spans.iter().filter(|span| span.lane == lane).collect();
    let end = spans.iter().map(|span| span.end).max().unwrap_or(0);
    let owner = |t: u64| {
        let open = spans.iter().enumerate().filter(|(_, s)| (s.start..s.end).contains(&t));
        open.max_by_key(|(i, s)| (s.start, std::cmp::Reverse(s.end), *i)).map(|(_, s)| s.kind)
    };
    (0..end).filter(|&t| owner(t) == Some(SpanKind::Task)).count() as u64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn time_is_a_partition(trace in trace()) {
        let summary = Summary::of(&trace).expect("a valid trace");
        let workers = trace.lanes.iter().filter(|lane| lane.kind == LaneKind::Worker).count() as u64;
        prop_assert_eq!(
            summary.busy() + summary.idle().total() + summary.scheduling(),
            workers * summary.makespan
        );
        for lane in &summary.lanes {
            prop_assert_eq!(lane.busy + lane.idle.total() + lane.rest, summary.makespan);
            prop_assert_eq!(lane.idle.iter().map(|(_, time)| time).sum::<u64>(), lane.idle.total());
        }
        let tasks = summary.totals.iter().filter(|total| total.activity == Activity::Task);
        let busy: u64 = summary.lanes.iter().map(|lane| lane.busy).sum();
        prop_assert_eq!(tasks.map(|total| total.time).sum::<u64>(), busy);
        prop_assert_eq!(
            summary.totals.iter().map(|total| total.spans).sum::<u64>(),
            trace.spans.len() as u64
        );
    }

    #[test]
    fn two_windows_add_up_to_the_whole(trace in trace(), cut in 0.0f64..1.0) {
        let whole = Summary::of(&trace).expect("a valid trace");
        let (from, to) = trace.extent().unwrap_or((0, 0));
        let cut = from + ((to - from) as f64 * cut) as u64;
        let left = Summary::within(&trace, from, cut).expect("a window");
        let right = Summary::within(&trace, cut, to).expect("a window");
        prop_assert_eq!(left.busy() + right.busy(), whole.busy());
        prop_assert_eq!(left.idle().total() + right.idle().total(), whole.idle().total());
        prop_assert_eq!(left.waits().total() + right.waits().total(), whole.waits().total());
    }

    #[test]
    fn figures_are_xml_whatever_the_trace(trace in trace(), width in 400u32..1500, batch in 0u32..4) {
        let whole = Chart::new(&trace).width(width).render();
        prop_assert_eq!(whole.is_err(), trace.spans.is_empty());
        let part = Chart::new(&trace).batches(batch..batch + 2).render();
        let both = compare(&[&trace, &trace], &Comparison::default().width(width));
        for svg in [whole, part, both].into_iter().flatten() {
            let document = Document::parse(&svg).expect("XML");
            for lane in &trace.lanes {
                prop_assert!(svg.contains(&lane.name));
            }
            for node in document.descendants().filter(|node| node.has_tag_name("rect")) {
                let size = |name| node.attribute(name).and_then(|v| v.parse::<i64>().ok());
                prop_assert!(size("width") >= Some(0) && size("height") >= Some(0));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_innermost_span_owns_its_time(mut trace in trace()) {
        for span in &mut trace.spans {
            span.start %= 500;
            span.end = span.start + span.end % 60;
        }
        let summary = Summary::of(&trace).expect("a valid trace");
        for (index, lane) in summary.lanes.iter().enumerate() {
            prop_assert_eq!(lane.busy, busy_by_nanosecond(&trace, index as u32));
        }
    }
}
