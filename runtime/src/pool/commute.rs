//! Tasks that commute on handles: of those that share one, one at a time.
//!
//! # The protocol
//! Edges do not order the tasks of a run, so a task that commutes becomes ready like any other, and
//! takes all its handles before its body begins: all of them at once or none, so that no task
//! holds one handle while it waits for another. If one is held, the task is *parked* at that one,
//! and its thread goes on with other work.
//!
//! Whoever gives a handle back *calls* the first of those parked there that could begin now: queues
//! it once more. The call grants nothing. Another task that comes first may take the handle, for
//! it would be idle until the called one has come through the queue; that one is then parked
//! again, as often as others were faster.
//!
//! *Nobody is forgotten*: all of this happens under one lock, and at its release these hold:
//!
//! * A parked task is parked at one of its handles.
//! * Somebody has been called to each handle that is free and has parked tasks. When that one
//!   tries, it holds the handle afterwards, or somebody else is called there.
//!
//! A handle that is held is given back at the end of a body. So every parked task is tried again
//! after the end of a body, and of those that are tried last, one gets its handles: a table in
//! which nothing is held stops nobody.
//!
//! A task that has been cancelled is no exception: it ends when it has been granted its handles.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Context;
use crate::runtime::Inner;
use crate::scheduler::{ByPriority, ReadyTask};
use crate::sync::{Mutex, lock};

/// Tasks that have to be queued again.
type Called = SmallVec<[u32; 4]>;

/// What is known of tasks that commute; nobody else comes here.
pub(crate) struct Commuting(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// The tasks that have not begun, by slot.
    tasks: FxHashMap<u32, Task>,
    /// The handles that are held, or have parked or called tasks.
    handles: FxHashMap<u32, Place>,
}

struct Task {
    handles: SmallVec<[u32; 4]>,
    /// Where it was parked before it was called.
    called_to: Option<u32>,
}

#[derive(Default)]
struct Place {
    held: bool,
    /// Whether a task was called here that has not tried yet.
    called: bool,
    parked: ByPriority,
}

/// The handles that a task holds while its body runs.
#[must_use = "handles are given back"]
struct Grant(SmallVec<[u32; 4]>);

impl Commuting {
    pub(crate) fn new() -> Self {
        Commuting(Mutex::new(Table::default()))
    }

    /// Notes the handles of the task in `slot`, before it is published.
    pub(crate) fn enrol(&self, slot: u32, handles: impl Iterator<Item = u32>) {
        let task = Task { handles: handles.collect(), called_to: None };
        lock(&self.0).tasks.insert(slot, task);
    }

    /// Takes the handles of a ready task, or parks it at one that is held.
    fn enter(&self, slot: u32, priority: i16, called: &mut Called) -> Option<Grant> {
        let mut table = lock(&self.0);
        let Table { tasks, handles } = &mut *table;
        let task = tasks.get_mut(&slot).expect("enrolled, and not begun");
        let called_to = task.called_to.take();
        if let Some(handle) = called_to {
            handles.entry(handle).or_default().called = false;
        }
        let grant = if let Some(busy) = task.busy_in(handles) {
            let task = ReadyTask { slot, priority, sequence: 0 };
            handles.entry(busy).or_default().parked.push(task);
            None
        } else {
            task.handles.iter().for_each(|h| handles.entry(*h).or_default().held = true);
            tasks.remove(&slot).map(|task| Grant(task.handles))
        };
        if let Some(handle) = called_to {
            table.call_to(handle, called);
        }
        grant
    }

    /// Gives the handles of a task back.
    fn leave(&self, grant: &Grant, called: &mut Called) {
        let mut table = lock(&self.0);
        for handle in &grant.0 {
            table.handles.entry(*handle).or_default().held = false;
        }
        for handle in &grant.0 {
            table.call_to(*handle, called);
        }
    }
}

impl Task {
    /// One of its handles that another task holds.
    fn busy_in(&self, handles: &FxHashMap<u32, Place>) -> Option<u32> {
        let is_held = |handle: &&u32| handles.get(*handle).is_some_and(|place| place.held);
        self.handles.iter().find(is_held).copied()
    }
}

impl Table {
    /// Calls a task to a handle, if it is free, some are parked there and none has been called.
    fn call_to(&mut self, handle: u32, called: &mut Called) {
        let Table { tasks, handles } = self;
        while let Some(place) = handles.get_mut(&handle)
            && !place.held
            && !place.called
        {
            let Some(parked) = place.parked.pop() else {
                handles.remove(&handle);
                break;
            };
            let task = tasks.get_mut(&parked.slot).expect("parked, so not begun");
            if let Some(busy) = task.busy_in(handles) {
                handles.entry(busy).or_default().parked.push(parked);
            } else {
                task.called_to = Some(handle);
                handles.entry(handle).or_default().called = true;
                called.push(parked.slot);
            }
        }
    }
}

impl Inner {
    /// Runs the ready task in `slot`, which commutes on handles, and ends it, or parks it; returns
    /// a task to run next.
    #[cold]
    pub(super) fn execute_commuting(&self, slot: u32, context: &mut Context) -> Option<u32> {
        let its = self.table.slot(slot);
        let mut called = Called::new();
        let mut next = None;
        if let Some(grant) = self.commuting.enter(slot, its.priority(), &mut called) {
            next = self.execute_plain(slot, its, context);
            self.commuting.leave(&grant, &mut called);
        }
        let next = next.or_else(|| called.pop());
        context.ready.extend(called);
        self.go_on(next, context)
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::{AtomicU32, Ordering};
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Tasks that have been queued, and the values behind two handles. An access that the
    /// protocol does not order is reported as a race.
    struct World {
        commuting: Commuting,
        ready: Mutex<Vec<u32>>,
        handles: Vec<Vec<u32>>,
        values: [UnsafeCell<u32>; 2],
        ended: AtomicU32,
    }

    impl World {
        fn new(handles: Vec<Vec<u32>>) -> Arc<Self> {
            let commuting = Commuting::new();
            for (slot, handles) in handles.iter().enumerate() {
                commuting.enrol(slot as u32, handles.iter().copied());
            }
            Arc::new(World {
                commuting,
                ready: Mutex::new((0..handles.len() as u32).collect()),
                handles,
                values: [UnsafeCell::new(0), UnsafeCell::new(0)],
                ended: AtomicU32::new(0),
            })
        }

        /// Runs tasks until none is queued. What is left then is parked, and will be called by
        /// another thread.
        fn work(&self) {
            loop {
                let Some(slot) = lock(&self.ready).pop() else { return };
                let mut called = Called::new();
                if let Some(grant) = self.commuting.enter(slot, 0, &mut called) {
                    for handle in &self.handles[slot as usize] {
                        // SAFETY: none of loom's pointers outlives its closure; races are what
                        // loom looks for.
                        #[allow(unsafe_code, reason = "loom cells hand out raw pointers")]
                        self.values[*handle as usize].with_mut(|value| unsafe { *value += 1 });
                    }
                    self.ended.fetch_add(1, Ordering::Relaxed);
                    self.commuting.leave(&grant, &mut called);
                }
                lock(&self.ready).extend(called);
            }
        }

        fn check(&self) {
            assert_eq!(self.ended.load(Ordering::Relaxed) as usize, self.handles.len());
            let table = lock(&self.commuting.0);
            assert!(table.tasks.is_empty() && table.handles.is_empty(), "nothing is left");
        }
    }

    fn run(world: &Arc<World>, threads: usize) {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let world = world.clone();
                thread::spawn(move || world.work())
            })
            .collect();
        for worker in workers {
            worker.join().expect("worker");
        }
        world.check();
    }

    #[test]
    fn loom_two_who_take_handles_in_opposite_orders_both_run() {
        loom::model(|| {
            let world = World::new(vec![vec![0, 1], vec![1, 0], vec![0]]);
            run(&world, 2);
        });
    }

    /// One is called to handle 0 while handle 1 is taken.
    #[test]
    fn loom_a_called_task_that_comes_too_late_is_not_lost() {
        loom::model(|| {
            let world = World::new(vec![vec![1], vec![0], vec![0, 1], vec![0]]);
            run(&world, 2);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_free_handle_has_somebody_called_if_any_are_parked() {
        let commuting = Commuting::new();
        let handles: [&[u32]; 5] = [&[1], &[0], &[0, 1], &[0], &[0, 1]];
        for (slot, handles) in handles.iter().enumerate() {
            commuting.enrol(slot as u32, handles.iter().copied());
        }
        let called = &mut Called::new();
        let holder = commuting.enter(3, 0, called).expect("nothing is held");
        for parked in [4, 2, 1] {
            assert!(commuting.enter(parked, 0, called).is_none());
        }
        commuting.leave(&holder, called);
        assert_eq!(called.drain(..).collect::<Vec<_>>(), [4], "one, the oldest");
        // Another is faster at its second handle: what is parked at the first is called instead,
        // except who needs the second as well.
        let faster = commuting.enter(0, 0, called).expect("handle 1 is free");
        assert!(commuting.enter(4, 0, called).is_none());
        assert_eq!(called.drain(..).collect::<Vec<_>>(), [1]);
        let alone = commuting.enter(1, 0, called).expect("handle 0 is free");
        commuting.leave(&faster, called);
        assert!(called.is_empty(), "the others need handle 0, too");
        commuting.leave(&alone, called);
        for last in [2, 4] {
            let [next] = called.drain(..).collect::<Vec<_>>()[..] else { panic!("one is called") };
            assert!(next == 2 || next == 4, "not {last}");
            let grant = commuting.enter(next, 0, called).expect("both are free");
            commuting.leave(&grant, called);
        }
        let table = lock(&commuting.0);
        assert!(called.is_empty() && table.tasks.is_empty() && table.handles.is_empty());
    }
}
