//! The watchdog's thread. What its reports say is tested beside them.

mod common;

use std::sync::mpsc;
use std::time::Duration;

use common::{Shared, blocked, quiet_panics};
use millrace_runtime::Runtime;
use millrace_runtime::watchdog::{StallReport, Watchdog};

fn watched(after: Duration, on_stall: impl FnMut(&StallReport) + Send + 'static) -> Runtime {
    let watchdog = Watchdog::after(after).on_stall(on_stall);
    Runtime::builder().workers(1).watchdog(watchdog).build().expect("possible")
}

#[test]
fn a_stall_is_told_at_doubled_intervals_until_the_drop() {
    let (tell, told) = mpsc::channel();
    let after = Duration::from_millis(2);
    let rt = watched(after, move |report| _ = tell.send(report.clone()));
    let data = Shared::new(&rt);
    let guard = rt.acquire(data.read()).expect("free");
    rt.spawn("held up", data.write(), |_| ()).expect("valid");
    let mut reports = told.iter().take(3);
    let mut last = after / 2;
    for report in &mut reports {
        assert!(report.stalled >= 2 * last, "{:?} after {last:?}", report.stalled);
        assert_eq!((report.unfinished, report.waiting.list[0].place.name), (1, "held up"));
        last = report.stalled;
    }
    drop(guard);
    rt.wait().expect("no failure");
    drop((rt, data));
    // The callback is gone, and with it the thread.
    while told.recv().is_ok() {}
}

#[test]
fn the_drop_ends_the_thread_at_once() {
    let (tell, told) = mpsc::channel::<()>();
    let rt = watched(Duration::MAX, move |_| _ = tell.send(()));
    rt.spawn("task", (), |()| ()).expect("valid");
    rt.wait().expect("no failure");
    drop(rt);
    assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Disconnected));
}

#[test]
fn a_callback_that_panics_is_called_again() {
    quiet_panics();
    let (tell, told) = mpsc::channel();
    let mut calls = 0;
    let rt = watched(Duration::from_millis(1), move |_| {
        calls += 1;
        assert!(calls > 1, "the callback was told to {}", "panic");
        _ = tell.send(calls);
    });
    let (_, let_go) = blocked(&rt);
    assert_eq!(told.recv(), Ok(2));
    let_go.send(()).expect("it waits");
}

#[test]
fn statistics_stay_without_times_if_only_the_watchdog_takes_them() {
    let watchdog = Watchdog::after(Duration::from_secs(1 << 20));
    let rt = Runtime::builder().workers(1).timing(false).watchdog(watchdog);
    let rt = rt.build().expect("possible");
    rt.spawn("task", (), |()| ()).expect("valid");
    rt.wait().expect("no failure");
    let statistics = rt.statistics();
    assert!(!statistics.timed, "{statistics}");
}
