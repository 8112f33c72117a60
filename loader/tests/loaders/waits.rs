//! What each kind waits for, and what it leaves behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::common::{content, dataset, loader, runtime};
use millrace_loader::{Batch, Loader, LoaderConfig, LoaderError, LoaderKind};
use millrace_runtime::trace::{Cause, Span, SpanKind, Trace};
use millrace_runtime::{Runtime, SubmitError};

/// Holds tasks until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }
}

/// Submits a task on the batch that ends only after the gate is open.
fn hold(rt: &Runtime, batch: &Batch, gate: &Gate) {
    let gate = gate.clone();
    rt.spawn("hold", batch.images.whole().read(), move |_| gate.pass()).unwrap();
}

fn four_batches() -> LoaderConfig {
    LoaderConfig { batch_size: 10, epochs: 1, ..LoaderConfig::default() }
}

/// `double` and `advanced` give out the next batches while the first is still in use: this ends
/// only if they do not wait for it.
#[test]
fn double_and_advanced_do_not_wait_for_the_last_batch() {
    for (kind, ring, ahead) in [
        (LoaderKind::Double, 3, 1),
        (LoaderKind::Advanced, 3, 1),
        (LoaderKind::Advanced, 4, 2),
        (LoaderKind::Advanced, 6, 3),
    ] {
        let rt = runtime(1);
        let gate = Gate::default();
        let config = LoaderConfig { ring, ..four_batches() };
        let mut loader = loader(&rt, kind, &dataset(40), &config);
        hold(&rt, &loader.next().unwrap().unwrap(), &gate);
        for _ in 0..ahead {
            loader.next().unwrap().unwrap();
        }
        gate.open();
        while loader.next().unwrap().is_some() {}
        rt.wait().unwrap();
    }
}

/// After `calls` further calls, the task on the first batch has ended.
fn has_waited(kind: LoaderKind, calls: usize) {
    for _ in 0..20 {
        let rt = runtime(2);
        let mut loader = loader(&rt, kind, &dataset(40), &four_batches());
        let ended = Arc::new(AtomicBool::new(false));
        let first = loader.next().unwrap().unwrap();
        let in_task = Arc::clone(&ended);
        rt.spawn("slow", first.images.whole().read(), move |_| {
            // Long enough for a thread that does not wait to get ahead.
            for _ in 0..100 {
                std::thread::yield_now();
            }
            in_task.store(true, Ordering::SeqCst);
        })
        .unwrap();
        for _ in 0..calls {
            loader.next().unwrap().unwrap();
        }
        assert!(ended.load(Ordering::SeqCst), "{kind}");
    }
}

#[test]
fn memory_is_not_used_again_before_its_tasks_have_ended() {
    has_waited(LoaderKind::Naive, 1);
    has_waited(LoaderKind::Prefetch, 1);
    has_waited(LoaderKind::Double, 2);
    has_waited(LoaderKind::Advanced, 2);
}

fn take_trace(rt: &Runtime) -> Trace {
    rt.wait().unwrap();
    rt.trace_stop();
    rt.trace_take("test", Default::default())
}

/// Batches whose loads the trace holds, in order of time, one entry for each shard.
fn loads(trace: &Trace) -> Vec<(u32, u16)> {
    let name = |index: u32| trace.names[index as usize].as_str();
    let mut spans: Vec<_> = trace
        .spans
        .iter()
        .filter(|span| span.kind == SpanKind::Task && name(span.name) == "load")
        .collect();
    spans.sort_by_key(|span| span.start);
    spans.into_iter().map(|span| (span.batch.unwrap(), span.shard.unwrap())).collect()
}

/// Without workers, tasks run where they are submitted; so the trace tells when that was.
#[test]
fn loads_are_submitted_as_documented() {
    for (kind, ahead) in [
        (LoaderKind::Naive, 0),
        (LoaderKind::Prefetch, 1),
        (LoaderKind::Double, 0),
        (LoaderKind::Advanced, 1),
    ] {
        let rt = runtime(0);
        // Three batches per epoch.
        let config = LoaderConfig { batch_size: 4, epochs: 2, shards: 2, ..four_batches() };
        let mut loader = loader(&rt, kind, &dataset(9), &config);
        for call in 0..6 {
            rt.trace_start();
            loader.next().unwrap().unwrap();
            // The batch after the last one of the first epoch is loaded like any other.
            let first = if call == 0 { 0 } else { call + ahead };
            let expected: Vec<u32> = (first..(call + ahead + 1).min(6)).collect();
            let trace = take_trace(&rt);
            let mut batches: Vec<u32> = loads(&trace).iter().map(|&(batch, _)| batch).collect();
            batches.dedup();
            assert_eq!(batches, expected, "{kind}, call {call}");
        }
    }
}

/// The last batch of an epoch has one sample, hence one shard.
#[test]
fn loads_carry_batch_and_shard() {
    let rt = runtime(0);
    let config = LoaderConfig { batch_size: 4, epochs: 1, shards: 2, ..four_batches() };
    let mut loader = loader(&rt, LoaderKind::Naive, &dataset(9), &config);
    rt.trace_start();
    while loader.next().unwrap().is_some() {}
    assert_eq!(loads(&take_trace(&rt)), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]);
}

/// Names of the barriers of one run in which the task on the first batch is held until the
/// loader is about to wait for it.
fn barriers(kind: LoaderKind) -> Vec<String> {
    let rt = runtime(1);
    let gate = Gate::default();
    let mut loader = loader(&rt, kind, &dataset(40), &four_batches());
    rt.trace_start();
    let first = loader.next().unwrap().unwrap();
    hold(&rt, &first, &gate);
    // The call that needs the memory of the first batch comes next.
    let last = match kind {
        LoaderKind::Naive | LoaderKind::Prefetch => first,
        LoaderKind::Double | LoaderKind::Advanced => loader.next().unwrap().unwrap(),
    };
    let opener = std::thread::spawn({
        let rt = rt.clone();
        move || {
            while rt.spawn("probe", last.labels.whole().read(), |_| ()).is_ok() {
                std::thread::yield_now();
            }
            gate.open();
        }
    });
    loader.next().unwrap().unwrap();
    opener.join().unwrap();
    let trace = take_trace(&rt);
    let is_barrier = |span: &&Span| span.kind == SpanKind::Wait && span.cause == Cause::Barrier;
    let name = |span: &Span| trace.names[span.name as usize].clone();
    trace.spans.iter().filter(is_barrier).map(name).collect()
}

/// Each wait of a loader is a barrier that names the arena.
#[test]
fn waits_are_barriers_in_the_trace() {
    for (kind, name) in [
        (LoaderKind::Naive, "arena images"),
        (LoaderKind::Prefetch, "arena images 0"),
        (LoaderKind::Double, "arena images 0"),
        (LoaderKind::Advanced, "arena images 0"),
    ] {
        // The held task may end just before the loader begins to wait; then there is none.
        let seen = (0..1000).map(|_| barriers(kind)).find(|names| !names.is_empty());
        assert_eq!(seen.as_deref(), Some(&[name.to_owned()][..]), "{kind}");
    }
}

/// From the second epoch on, no arena grows: three batches per epoch, the last one smaller, over
/// two or three slots, so that each slot sees each size.
#[test]
fn steady_state_allocates_nothing() {
    let set = dataset(21);
    // 10 samples of 30 values and 10 labels, each rounded to the alignment.
    let tight = 1280 + 64;
    for kind in LoaderKind::ALL {
        for limit_per_slot in [None, Some(tight + 128)] {
            let slots = match kind {
                LoaderKind::Naive => 1,
                LoaderKind::Prefetch | LoaderKind::Double => 2,
                LoaderKind::Advanced => 3,
            };
            let config = LoaderConfig {
                epochs: 30,
                shards: 3,
                limit: limit_per_slot.map(|limit| slots * limit),
                ..four_batches()
            };
            let rt = runtime(2);
            let mut loader = loader(&rt, kind, &set, &config);
            let mut after_two = Vec::new();
            while let Some(batch) = loader.next().unwrap() {
                rt.spawn("use", batch.images.whole().read(), |_| ()).unwrap();
                if batch.epoch == 2 && batch.index_in_epoch == 0 {
                    after_two = chunks(&loader);
                }
            }
            rt.wait().unwrap();
            assert_eq!(chunks(&loader), after_two, "{kind}");
            assert!(after_two.iter().all(|&chunks| chunks == 1), "{kind}: {after_two:?}");
        }
    }
}

/// Chunks of each arena.
fn chunks(loader: &Loader) -> Vec<usize> {
    loader.arenas().map(|arena| arena.statistics().chunks).collect()
}

#[test]
fn a_limit_below_one_batch_is_told() {
    let rt = runtime(1);
    let config = LoaderConfig { limit: Some(1000), ..four_batches() };
    let mut loader = loader(&rt, LoaderKind::Naive, &dataset(40), &config);
    let error = loader.next().unwrap_err();
    assert!(matches!(error, LoaderError::Arena(_)), "{error}");
    assert!(error.to_string().contains("images"), "{error}");
}

/// Tasks submitted before the drop end as they would have, and the runtime goes on.
#[test]
fn dropped_in_the_middle() {
    for kind in LoaderKind::ALL {
        let rt = runtime(2);
        let gate = Gate::default();
        let mut first = loader(&rt, kind, &dataset(40), &four_batches());
        let batch = first.next().unwrap().unwrap();
        hold(&rt, &batch, &gate);
        drop(first);
        // The batch went with its loader.
        let refused = rt.spawn("late", batch.images.whole().read(), |_| ());
        assert!(matches!(refused, Err(SubmitError::Stale { .. })), "{refused:?}");

        // Another loader may come while the first one's memory is still in use.
        let mut second = loader(&rt, kind, &dataset(40), &four_batches());
        gate.open();
        let mut batches = 0;
        while let Some(batch) = second.next().unwrap() {
            content(&batch);
            batches += 1;
        }
        assert_eq!(batches, 4);
        rt.wait().unwrap();
    }
}

#[test]
fn the_runtime_may_go_first() {
    for kind in LoaderKind::ALL {
        let rt = runtime(2);
        let mut loader = loader(&rt, kind, &dataset(40), &four_batches());
        loader.next().unwrap().unwrap();
        drop(rt);
        loader.next().unwrap().unwrap();
    }
}

#[test]
fn a_batch_is_refused_after_the_next_call() {
    for kind in LoaderKind::ALL {
        let rt = runtime(2);
        let mut loader = loader(&rt, kind, &dataset(40), &four_batches());
        let mut last: Option<Batch> = None;
        loop {
            let batch = loader.next().unwrap();
            if let Some(last) = last {
                let refused = rt.spawn("late", last.images.shard(0).read(), |_| ());
                assert!(matches!(refused, Err(SubmitError::Stale { .. })), "{kind}: {refused:?}");
                assert!(last.labels.whole().acquire().is_err());
            }
            match batch {
                Some(batch) => last = Some(batch),
                None => break,
            }
        }
    }
}

/// A guard that is held across the call is an error, not a wait without end; afterwards the
/// stream goes on where it was.
#[test]
fn a_held_guard_is_told() {
    let rt = runtime(1);
    let mut loader = loader(&rt, LoaderKind::Naive, &dataset(40), &four_batches());
    let batch = loader.next().unwrap().unwrap();
    let guard = batch.labels.whole().acquire().unwrap();
    let result = loader.next();
    assert!(result.is_err(), "{result:?}");
    drop(guard);
    assert_eq!(loader.next().unwrap().unwrap().index, 1);
}
