//! Bounded traces.

use millrace_runtime::Runtime;
use millrace_runtime::trace::{Keep, SpanKind, Trace};

fn spawn(rt: &Runtime, batches: std::ops::Range<u32>) {
    for batch in batches {
        rt.task("task").batch(batch).spawn((), |()| ()).expect("accepted");
    }
    rt.wait().expect("nothing fails");
}

fn take(rt: &Runtime) -> Trace {
    rt.trace_take("t", Default::default())
}

/// The batches of the task spans, in the order of the trace.
fn batches(trace: &Trace) -> Vec<u32> {
    let tasks = trace.spans.iter().filter(|span| span.kind == SpanKind::Task);
    tasks.map(|span| span.batch.expect("labelled")).collect()
}

#[test]
fn a_full_trace_keeps_what_was_asked_for_and_counts_the_rest() {
    for (keep, kept) in [(Keep::Oldest, 0..10), (Keep::Newest, 90..100)] {
        let builder = Runtime::builder().workers(0).trace_capacity(10).trace_keep(keep);
        let rt = builder.build().expect("a runtime");
        spawn(&rt, 200..300);
        rt.trace_start();
        spawn(&rt, 0..100);
        let trace = take(&rt);
        assert_eq!(batches(&trace), kept.collect::<Vec<_>>());
        assert_eq!((trace.dropped, trace.lanes[0].dropped, trace.keep), (90, 90, keep));
        spawn(&rt, 5..10);
        let trace = take(&rt);
        assert_eq!(batches(&trace), (5..10).collect::<Vec<_>>(), "there is room again");
        assert!(trace.losses().is_none());
        spawn(&rt, 0..50);
        rt.trace_start();
        assert!(take(&rt).losses().is_none(), "what was lost before the start does not count");
    }
}

#[test]
fn each_lane_says_what_it_lost() {
    for keep in [Keep::Oldest, Keep::Newest] {
        let builder = Runtime::builder().workers(2).trace_capacity(7).trace_keep(keep);
        let rt = builder.build().expect("a runtime");
        rt.trace_start();
        spawn(&rt, 0..300);
        rt.trace_stop();
        let trace = take(&rt);
        let lost: u64 = trace.lanes.iter().map(|lane| lane.dropped).sum();
        assert_eq!(lost, trace.dropped);
        assert!(lost > 0 && trace.losses().is_some());
        // At most seven spans of each of three lanes were kept; a wait may cut an idle one.
        let tasks = batches(&trace);
        assert!(tasks.len() <= 14, "{tasks:?}");
    }
}

#[test]
fn a_trace_without_room_loses_everything() {
    for keep in [Keep::Oldest, Keep::Newest] {
        let builder = Runtime::builder().workers(0).trace_capacity(0).trace_keep(keep);
        let rt = builder.build().expect("a runtime");
        rt.trace_start();
        spawn(&rt, 0..20);
        let trace = take(&rt);
        assert_eq!((trace.spans.len(), trace.dropped), (0, 20));
    }
}
