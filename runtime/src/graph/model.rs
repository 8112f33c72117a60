//! Loom models of submission, completion and slot reuse, with the data that tasks touch in
//! loom's cells: an access that the protocol does not order is reported as a race.

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::GuardMark;
use super::table::Allocation;
use super::{Need, SlotTable, TaskRef};
use crate::sync::{AtomicU32, Ordering};

/// A table, a ready queue, and one value that all tasks of the model write.
struct World {
    table: SlotTable,
    ready: Mutex<Vec<u32>>,
    /// What the task in each slot does; a slot's next task may do something else.
    bodies: [Mutex<Body>; 4],
    value: UnsafeCell<u32>,
    private: [UnsafeCell<u32>; 2],
}

/// What a task of the model does.
#[derive(Clone, Copy)]
enum Body {
    /// Writes the shared value.
    Shared,
    /// Writes one of the private values.
    Private(usize),
    /// Writes the shared value and reads both private ones.
    Join,
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(World {
            table: SlotTable::new(),
            ready: Mutex::new(Vec::new()),
            bodies: std::array::from_fn(|_| Mutex::new(Body::Shared)),
            value: UnsafeCell::new(0),
            private: [UnsafeCell::new(0), UnsafeCell::new(0)],
        })
    }

    fn push(&self, slot: u32) {
        self.ready.lock().expect("lock").push(slot);
    }

    fn submit(&self, allocation: &mut Allocation, body: Body, needs: &[TaskRef]) -> TaskRef {
        let (task, slot) = self.table.allocate(allocation).expect("a slot");
        *self.bodies[task.slot() as usize].lock().expect("lock") = body;
        let (mut edges, found) = (0, needs.len() as u32);
        slot.announce(found);
        for need in needs {
            let need = Need { task: *need, order_only: false };
            self.table.link(need, (task.slot(), slot), &mut edges, allocation);
        }
        if slot.publish(found, edges) {
            self.push(task.slot());
        }
        task
    }

    /// Runs one ready task, if there is one.
    fn run_one(&self) -> bool {
        let Some(slot) = self.ready.lock().expect("lock").pop() else { return false };
        // SAFETY: none of loom's pointers outlives its closure; races are what loom looks for.
        #[allow(unsafe_code, reason = "loom cells hand out raw pointers")]
        let add = |cell: &UnsafeCell<u32>| cell.with_mut(|value| unsafe { *value += 1 });
        let body = *self.bodies[slot as usize].lock().expect("lock");
        match body {
            Body::Shared => add(&self.value),
            Body::Private(which) => add(&self.private[which]),
            Body::Join => {
                add(&self.value);
                self.private.iter().for_each(|cell| add(cell));
            }
        }
        self.table.end(slot, None, |successor, _| self.push(successor));
        self.table.free(&[slot]);
        true
    }

    fn total(&self) -> u32 {
        // SAFETY: as above.
        #[allow(unsafe_code, reason = "loom cells hand out raw pointers")]
        let read = |cell: &UnsafeCell<u32>| cell.with(|value| unsafe { *value });
        read(&self.value) + self.private.iter().map(read).sum::<u32>()
    }
}

/// A worker ends tasks of a chain while the submitter hangs successors on them and reuses the
/// slots that come free: each runs once, in order, whatever the interleaving.
#[test]
fn loom_a_chain_survives_the_reuse_of_its_slots() {
    loom::model(|| {
        let world = World::new();
        let worker = {
            let world = world.clone();
            thread::spawn(move || {
                for _ in 0..2 {
                    world.run_one();
                }
            })
        };
        let mut allocation = Allocation::new();
        let a = world.submit(&mut allocation, Body::Shared, &[]);
        let b = world.submit(&mut allocation, Body::Shared, &[a]);
        // `a` is stale here in some interleavings, and its slot may be the new task's own.
        world.submit(&mut allocation, Body::Shared, &[b, a]);
        worker.join().expect("worker");
        while world.run_one() {}
        assert_eq!(world.total(), 3);
    });
}

/// Two workers end the two predecessors of one task: it is queued once, after both.
#[test]
fn loom_the_last_of_two_predecessors_queues_the_successor() {
    loom::model(|| {
        let world = World::new();
        let mut allocation = Allocation::new();
        let a = world.submit(&mut allocation, Body::Private(0), &[]);
        let b = world.submit(&mut allocation, Body::Private(1), &[]);
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let world = world.clone();
                thread::spawn(move || world.run_one())
            })
            .collect();
        world.submit(&mut allocation, Body::Join, &[a, b]);
        for worker in workers {
            worker.join().expect("worker");
        }
        while world.run_one() {}
        assert_eq!(world.total(), 5);
    });
}

/// Two workers give slots back while the submitter takes them: none is lost or handed out
/// twice.
#[test]
fn loom_freed_slots_are_handed_out_once() {
    loom::model(|| {
        let world = World::new();
        let mut allocation = Allocation::new();
        let slots: Vec<u32> = (0..2)
            .map(|_| world.table.allocate(&mut allocation).expect("a slot").0.slot())
            .collect();
        let workers: Vec<_> = slots
            .iter()
            .map(|slot| {
                let (world, slot) = (world.clone(), *slot);
                thread::spawn(move || world.table.free(&[slot]))
            })
            .collect();
        let first = world.table.allocate(&mut allocation).expect("a slot").0.slot();
        for worker in workers {
            worker.join().expect("worker");
        }
        let second = world.table.allocate(&mut allocation).expect("a slot").0.slot();
        assert_ne!(first, second);
    });
}

/// A guard is granted while whoever waits for it gives up: one of the two ends it.
#[test]
fn loom_a_guard_has_one_owner() {
    loom::model(|| {
        let table = Arc::new(SlotTable::new());
        let guard = table.allocate(&mut Allocation::new()).expect("a slot").0.slot();
        table.slot(guard).set_guard();
        let ended = Arc::new(AtomicU32::new(0));
        let granter = {
            let (table, ended) = (table.clone(), ended.clone());
            thread::spawn(move || {
                let marks = table.slot(guard).mark_guard(GuardMark::Granted);
                if marks.has(GuardMark::Abandoned) {
                    ended.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let marks = table.slot(guard).mark_guard(GuardMark::Abandoned);
        if marks.has(GuardMark::Granted) {
            ended.fetch_add(1, Ordering::Relaxed);
        }
        granter.join().expect("granter");
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    });
}
