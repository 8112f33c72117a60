//! Random programs on any number of workers are equal to their serial execution, also when
//! tasks fail.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{Shared, quiet_panics};
use millrace_runtime::scheduler::Schedule;
use millrace_runtime::{Builder, Mode, Runtime, WaitError};
use proptest::prelude::*;

/// One task of a random program.
#[derive(Clone, Debug)]
struct Step {
    accesses: BTreeMap<usize, Mode>,
    /// How many tasks before this one another stands that it comes after.
    after: Option<usize>,
    panics: bool,
    /// Children that it spawns, which all write one cell of their own.
    children: u64,
    /// Whether it ends after them, and their children.
    joined: bool,
    /// Whether the last of them panics.
    child_panics: bool,
    priority: i16,
    /// Iterations of useless work, to vary the interleaving.
    work: u32,
}

impl Step {
    /// The task that this one, which is number `index`, comes after.
    fn before(&self, index: usize) -> Option<usize> {
        self.after.and_then(|back| index.checked_sub(back))
    }
}

fn mix(state: u64, value: u64) -> u64 {
    (state ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

fn modes() -> impl Strategy<Value = Mode> {
    prop_oneof![
        4 => Just(Mode::Read),
        2 => Just(Mode::Write),
        1 => Just(Mode::Overwrite),
        3 => Just(Mode::Commute),
    ]
}

fn step(handles: usize, failures: u32) -> impl Strategy<Value = Step> {
    (
        prop::collection::btree_map(0..handles, modes(), 0..12),
        prop_oneof![4 => Just(None), 1 => (1usize..40).prop_map(Some)],
        prop::bool::weighted(f64::from(failures) / 100.0),
        prop_oneof![9 => Just(0u64), 1 => 1u64..4],
        any::<bool>(),
        prop::bool::weighted(f64::from(failures) / 50.0),
        prop_oneof![3 => Just(0i16), 1 => -2i16..3],
        0u32..300,
    )
        .prop_map(
            |(accesses, after, panics, children, joined, child_panics, priority, work)| Step {
                accesses,
                after,
                panics,
                children,
                joined,
                child_panics: child_panics && joined && children > 0,
                priority,
                work,
            },
        )
}

/// What a program leaves: the value of each handle (`None`: not valid), which tasks ran, what
/// the children's cell of each task holds, and the first failure.
#[derive(Debug, PartialEq)]
struct Outcome {
    values: Vec<Option<u64>>,
    ran: Vec<u64>,
    children: Vec<Option<u64>>,
    first_failure: Option<usize>,
}

/// The meaning of a program.
fn serial(handles: usize, steps: &[Step]) -> Outcome {
    let mut values = vec![Some(0u64); handles];
    // Whether the handle was valid when its run began, while one is open.
    let mut runs = vec![None; handles];
    let mut ran = vec![0; steps.len()];
    let mut children = vec![Some(0); steps.len()];
    let mut ended_well = vec![true; steps.len()];
    let mut first_failure = None;
    for (index, step) in steps.iter().enumerate() {
        let needs = |(_, mode): &(&usize, &Mode)| **mode != Mode::Overwrite;
        for (handle, mode) in &step.accesses {
            let valid = values[*handle].is_some();
            let run = (*mode == Mode::Commute).then(|| runs[*handle].unwrap_or(valid));
            runs[*handle] = run;
        }
        let is_valid = |(h, _): (&usize, &Mode)| runs[*h].unwrap_or(values[*h].is_some());
        let valid = step.accesses.iter().filter(needs).all(is_valid)
            && step.before(index).is_none_or(|before| ended_well[before]);
        if valid && !step.panics {
            ran[index] = 1;
            // What commutes does not look at the old value.
            let read = step.accesses.iter().filter(|access| needs(access) && !commutes(access));
            let state = read.fold(index as u64, |s, (h, _)| mix(s, values[*h].unwrap_or(0)));
            for access in step.accesses.iter().filter(|(_, mode)| mode.writes()) {
                let new = mix(state, *access.0 as u64);
                let value = &mut values[*access.0];
                *value = if commutes(&access) {
                    value.map(|old| old.wrapping_add(new))
                } else {
                    Some(new)
                };
            }
            children[index] = (!step.child_panics).then(|| (0..step.children).fold(0, mix));
            if step.child_panics {
                ended_well[index] = false;
                first_failure = first_failure.or(Some(index));
                for (handle, _) in step.accesses.iter().filter(|(_, mode)| mode.writes()) {
                    values[*handle] = None;
                }
            }
        } else {
            ended_well[index] = false;
            if valid {
                ran[index] = 1;
                first_failure = first_failure.or(Some(index));
            }
            for (handle, _) in step.accesses.iter().filter(|(_, mode)| mode.writes()) {
                values[*handle] = None;
            }
        }
    }
    // When a child is submitted depends on when its parent runs, and so which failure is the first.
    if steps.iter().any(|step| step.child_panics) {
        first_failure = first_failure.map(|_| 0);
    }
    Outcome { values, ran, children, first_failure }
}

fn commutes((_, mode): &(&usize, &Mode)) -> bool {
    **mode == Mode::Commute
}

fn parallel(builder: Builder, window: usize, handles: usize, steps: &[Step]) -> Outcome {
    let rt = builder.window(window).build().expect("a runtime");
    let cells: Vec<Shared> = (0..handles).map(|_| Shared::new(&rt)).collect();
    let own: Arc<Vec<Shared>> = Arc::new(steps.iter().map(|_| Shared::new(&rt)).collect());
    let ran: Arc<Vec<AtomicU64>> = Arc::new(steps.iter().map(|_| AtomicU64::new(0)).collect());
    let below: Arc<Vec<AtomicU64>> = Arc::new(steps.iter().map(|_| AtomicU64::new(0)).collect());
    let mut tasks = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let of = |wanted: Mode| {
            let chosen = step.accesses.iter().filter(move |(_, mode)| **mode == wanted);
            chosen.map(|(handle, _)| *handle).collect::<Vec<_>>()
        };
        let (reads, writes, overwrites) = (of(Mode::Read), of(Mode::Write), of(Mode::Overwrite));
        let commuting = of(Mode::Commute);
        let access = (
            reads.iter().map(|h| cells[*h].read()).collect::<Vec<_>>(),
            writes.iter().map(|h| cells[*h].write()).collect::<Vec<_>>(),
            overwrites.iter().map(|h| cells[*h].overwrite()).collect::<Vec<_>>(),
            commuting.iter().map(|h| cells[*h].commute()).collect::<Vec<_>>(),
        );
        let (ran, own, below, inner) = (ran.clone(), own.clone(), below.clone(), rt.clone());
        let before = step.before(index).map(|before| tasks[before]);
        let joined_before = step.before(index).filter(|before| steps[*before].joined);
        let family = joined_before.map(|before| (before, steps[before].children));
        let Step { accesses, panics, children, joined, child_panics, priority, work, .. } =
            step.clone();
        let mut label = rt.task("step").batch(index as u32).priority(priority);
        type Data<'a> = (Vec<&'a u64>, Vec<&'a mut u64>, Vec<&'a mut u64>, Vec<&'a mut u64>);
        let body = move |(r, mut w, mut o, mut c): Data<'_>| {
            ran[index].fetch_add(1, Ordering::Relaxed);
            (0..work).for_each(|_| std::hint::spin_loop());
            assert!(!panics, "task {index} was told to");
            if let Some((before, children)) = family {
                assert_eq!(below[before].load(Ordering::Relaxed), children, "of task {before}");
            }
            let values: BTreeMap<usize, u64> = reads
                .iter()
                .zip(&r)
                .map(|(h, v)| (*h, **v))
                .chain(writes.iter().zip(&w).map(|(h, v)| (*h, **v)))
                .collect();
            let state = accesses
                .iter()
                .filter(|(_, mode)| matches!(mode, Mode::Read | Mode::Write))
                .fold(index as u64, |s, (h, _)| mix(s, values[h]));
            writes.iter().zip(&mut w).for_each(|(h, v)| **v = mix(state, *h as u64));
            overwrites.iter().zip(&mut o).for_each(|(h, v)| **v = mix(state, *h as u64));
            commuting.iter().zip(&mut c).for_each(|(h, v)| {
                let old = std::hint::black_box(**v);
                // Two at once would lose one of the sums.
                (0..work / 4).for_each(|_| std::hint::spin_loop());
                **v = old.wrapping_add(mix(state, *h as u64));
            });
            for child in 0..children {
                let write = own[index].write();
                let (below, nested) = (below.clone(), inner.clone());
                let grandchild = move |()| {
                    below[index].fetch_add(1, Ordering::Relaxed);
                };
                let body = move |s: &mut u64| {
                    *s = mix(*s, child);
                    if joined {
                        nested.spawn_child("grandchild", (), grandchild).expect("a grandchild");
                    }
                    assert!(!child_panics || child + 1 < children, "child was told to");
                };
                let task = inner.task("child").batch(index as u32);
                let task = if joined { task.child() } else { task };
                task.spawn(write, body).expect("a child");
            }
        };
        if let Some(before) = before {
            label = label.after(before);
        }
        tasks.push(label.spawn(access, body).expect("no conflict"));
    }
    let unordered = steps.iter().any(|step| step.child_panics);
    let first_failure = match rt.wait() {
        Ok(()) => None,
        Err(WaitError::Failed { failure, .. }) => failure.label().batch.map(|index| index as usize),
        Err(other) => panic!("{other}"),
    };
    rt.wait().expect("a failure is reported once");
    let value = |cell: &Shared| match rt.acquire(cell.read()) {
        Ok(mut held) => Some(*held.data()),
        Err(WaitError::Spoilt { .. }) => None,
        Err(other) => panic!("{other}"),
    };
    Outcome {
        values: cells.iter().map(value).collect(),
        ran: ran.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
        children: own.iter().map(value).collect(),
        first_failure: first_failure.map(|first| if unordered { 0 } else { first }),
    }
}

fn compare(handles: usize, steps: &[Step], window: usize, scheduler: &str) {
    compare_on(&[0, 1, 2, 4, 16], handles, steps, window, scheduler);
}

fn compare_on(pools: &[usize], handles: usize, steps: &[Step], window: usize, scheduler: &str) {
    let expected = serial(handles, steps);
    for &workers in pools {
        for helps in [false, true] {
            let schedule = scheduler.parse().expect("a scheduler");
            let builder = Runtime::builder().workers(workers).main_helps(helps);
            let outcome = parallel(builder.scheduler(schedule), window, handles, steps);
            assert_eq!(outcome, expected, "{workers} workers, {scheduler}, main helps: {helps}");
        }
    }
}

fn scheduler() -> impl Strategy<Value = &'static str> {
    // The default twice as often as each other.
    prop_oneof![Just("work-stealing"), prop::sample::select(&Schedule::NAMES)]
}

/// So many random programs, or as many as `PROPTEST_CASES` says.
fn cases(usual: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    ProptestConfig { cases: if asked { config.cases } else { usual }, ..config }
}

proptest! {
    #![proptest_config(cases(40))]

    #[test]
    fn equal_to_serial_execution(
        steps in prop::collection::vec(step(24, 0), 1..400),
        window in 1usize..200,
        scheduler in scheduler(),
    ) {
        compare(24, &steps, window, scheduler);
    }

    #[test]
    fn equal_to_serial_execution_with_few_handles(
        steps in prop::collection::vec(step(3, 0), 1..300),
        window in 1usize..50,
        scheduler in scheduler(),
    ) {
        compare(3, &steps, window, scheduler);
    }

    #[test]
    fn failures_cancel_exactly_what_depends_on_them(
        steps in prop::collection::vec(step(16, 4), 1..300),
        scheduler in scheduler(),
    ) {
        quiet_panics();
        compare(16, &steps, 4096, scheduler);
    }

    #[test]
    fn cancelling_drops_tasks_with_their_dependents(
        steps in prop::collection::vec(step(6, 2), 1..200),
        cancels in prop::collection::vec((any::<prop::sample::Index>(), 0u8..4), 0..20),
        workers in prop::sample::select(vec![1usize, 2, 4, 16]),
    ) {
        quiet_panics();
        cancel_some(&steps, &cancels, workers);
    }
}

/// Whose data a task needs that uses a handle.
#[derive(Default)]
struct Uses {
    writers: Vec<usize>,
    /// While tasks commute: the writers before the first of them.
    before: Option<Vec<usize>>,
}

impl Uses {
    /// Task `index` uses the handle; returns whose data it needs.
    fn add(&mut self, index: usize, mode: Mode) -> Vec<usize> {
        if mode == Mode::Commute {
            let before = self.before.get_or_insert_with(|| std::mem::take(&mut self.writers));
            self.writers.push(index);
            return before.clone();
        }
        self.before = None;
        let writers = self.writers.clone();
        if mode.writes() {
            self.writers = vec![index];
        }
        if mode == Mode::Overwrite { Vec::new() } else { writers }
    }
}

proptest! {
    // Each of them is as long as thirty of the others.
    #![proptest_config(cases(3))]

    #[test]
    fn long_programs_are_equal_to_serial_execution(
        steps in prop::collection::vec(step(48, 1), 5_000..10_000),
        window in 1usize..5_000,
        workers in 1usize..=16,
        scheduler in scheduler(),
    ) {
        quiet_panics();
        compare_on(&[workers], 48, &steps, window, scheduler);
    }

    #[test]
    fn cancelling_drops_tasks_of_long_programs(
        steps in prop::collection::vec(step(6, 1), 2_000..10_000),
        cancels in prop::collection::vec((any::<prop::sample::Index>(), 0u8..4), 0..40),
        workers in 1usize..=16,
    ) {
        quiet_panics();
        cancel_some(&steps, &cancels, workers);
    }
}

/// Cancels tasks, now and then all of them, while a program is submitted and run.
fn cancel_some(steps: &[Step], cancels: &[(prop::sample::Index, u8)], workers: usize) {
    const HANDLES: usize = 6;
    let rt = Runtime::builder().workers(workers).build().expect("a runtime");
    let cells: Vec<Shared> = (0..HANDLES).map(|_| Shared::new(&rt)).collect();
    let ran: Arc<Vec<AtomicU64>> = Arc::new(steps.iter().map(|_| AtomicU64::new(0)).collect());
    let clock = Arc::new(AtomicU64::new(1));
    let mut tasks = Vec::new();
    let mut needs: Vec<Vec<usize>> = Vec::new();
    let mut uses: [Uses; HANDLES] = Default::default();
    for (index, step) in steps.iter().enumerate() {
        let before = step.before(index);
        let needed = step.accesses.iter().map(|(h, mode)| uses[*h].add(index, *mode));
        needs.push(needed.flatten().chain(before).collect());
        let of = |writes| step.accesses.iter().filter(move |(_, mode)| mode.writes() == writes);
        let reads: Vec<_> = of(false).map(|(h, _)| cells[*h].read()).collect();
        let access = |(h, mode): (&usize, &Mode)| match mode {
            Mode::Overwrite => cells[*h].overwrite(),
            Mode::Commute => cells[*h].commute(),
            _ => cells[*h].write(),
        };
        let writes: Vec<_> = of(true).map(access).collect();
        let (ran, clock, panics) = (ran.clone(), clock.clone(), step.panics);
        let body = move |_: (Vec<&u64>, Vec<&mut u64>)| {
            ran[index].store(clock.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
            assert!(!panics, "task {index} was told to");
        };
        let mut task = rt.task("step").batch(index as u32);
        if let Some(before) = before {
            task = task.after(tasks[before]);
        }
        tasks.push(task.spawn((reads, writes), body).expect("no conflict"));
        for (which, kind) in cancels {
            if which.index(steps.len()) == index {
                if *kind == 0 { rt.cancel_all() } else { rt.cancel(tasks[index / *kind as usize]) }
            }
        }
    }
    let told = rt.wait();
    let stamp = |index: usize| ran[index].load(Ordering::SeqCst);
    let well: Vec<bool> = tasks.iter().map(|task| rt.wait_for(*task).is_ok()).collect();
    for (index, needs) in needs.iter().enumerate() {
        assert_eq!(well[index], stamp(index) > 0 && !steps[index].panics, "task {index}");
        if stamp(index) > 0 {
            assert!(needs.iter().all(|need| well[*need]), "task {index} ran without its data");
            assert!(needs.iter().all(|need| stamp(*need) < stamp(index)), "out of order");
        }
    }
    assert_eq!(told.is_ok(), well.iter().all(|well| *well));
    // The runtime goes on.
    for cell in &cells {
        rt.spawn("mend", cell.overwrite(), |x| *x = 7).expect("accepted");
        assert_eq!(cell.value(&rt), 7);
    }
    rt.wait().expect("nothing failed since");
}
