//! The arena: a ring of slots, and which of them is current.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use millrace_runtime::trace::Cause;
use millrace_runtime::{Runtime, in_task_body};

use crate::buffer::{Buffer, Span};
use crate::builder::Builder;
use crate::error::ArenaError;
use crate::lease::State;
use crate::memory::{Memory, NoPlace, Plan};
use crate::sharded::Sharded;
use crate::slot::{LeasedLen, SlotHeader, lock};
use crate::statistics::ArenaStatistics;

/// Memory for buffers of one lifetime, handed out from a ring of one or more slots.
///
/// Allocating moves an offset. A *generation* is what was allocated between two turns of the
/// ring; ending it ([`next`](Arena::next), [`reset`](Arena::reset), [`recycle`](Arena::recycle))
/// makes all its buffers stale at once, in program order, and frees its memory when the last
/// task that uses it ends. Every method takes `&self`; an arena may be shared between threads.
///
/// Dropping an arena ends its generations: tasks that were submitted still find their memory,
/// the last of them frees it, and the drop waits for nobody.
#[derive(Debug)]
pub struct Arena {
    runtime: Runtime,
    name: String,
    /// The name of its waits in traces.
    barrier: String,
    depth: usize,
    plan: Plan,
    /// Held while a turn of the ring waits, so that turns come one after the other. Bodies
    /// never turn, so no task can be kept from ending by this.
    turning: Mutex<()>,
    ring: Mutex<Ring>,
}

/// What the ring's lock protects. It is held for short, never while waiting.
#[derive(Debug)]
struct Ring {
    /// Slots adopted so far, at most `depth`.
    slots: Vec<&'static SlotHeader>,
    current: usize,
    /// The open generation of the current slot; `None` once it has ended.
    open: Option<u32>,
    /// Bytes that all slots hold.
    held: usize,
    generations: u64,
    resets: u64,
    recycles: u64,
    waits: u64,
    wait_time: Duration,
    limit_refusals: u64,
}

/// Which way the ring turns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// To the next slot.
    Next,
    /// On the spot.
    Reset,
}

impl Turn {
    fn call(self) -> &'static str {
        match self {
            Turn::Next => "next",
            Turn::Reset => "reset",
        }
    }
}

impl Arena {
    /// An arena of depth 1 without a limit.
    pub fn new(runtime: &Runtime, name: &str) -> Arena {
        Arena::builder(runtime, name).build()
    }

    /// Describes an arena.
    pub fn builder<'a>(runtime: &'a Runtime, name: &'a str) -> Builder<'a> {
        Builder::new(runtime, name)
    }

    pub(crate) fn from_parts(runtime: &Runtime, name: &str, depth: usize, plan: Plan) -> Arena {
        let memory = Memory::new(runtime.clone(), plan);
        let (slot, generation) = SlotHeader::adopt(name, memory, runtime.id());
        Arena {
            runtime: runtime.clone(),
            name: name.to_owned(),
            barrier: format!("arena {name}"),
            depth,
            plan,
            turning: Mutex::new(()),
            ring: Mutex::new(Ring {
                slots: vec![slot],
                current: 0,
                open: Some(generation),
                held: 0,
                generations: 1,
                resets: 0,
                recycles: 0,
                waits: 0,
                wait_time: Duration::ZERO,
                limit_refusals: 0,
            }),
        }
    }

    /// The arena's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Slots of the ring: 1 is `single`, 2 is `double`.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Allocates a buffer of `len` elements in the present generation.
    ///
    /// The content is initialised but arbitrary: zero in memory that was never used, whatever
    /// an earlier generation left elsewhere (a NaN pattern in debug builds).
    ///
    /// # Errors
    /// When the limit would be passed, when the buffer would have 2^40 bytes or more, when the
    /// system forbids it, and after `recycle` until another generation begins.
    pub fn alloc<T: Pod>(&self, len: usize) -> Result<Buffer<T>, ArenaError> {
        Ok(Buffer::new(self.span::<T>(len as u128, 1)?, len))
    }

    /// Allocates `rows` rows of `row_len` elements that tasks may use whole or in `shards`
    /// disjoint shards: shard `i` has the rows from `i * rows / shards` up to
    /// `(i + 1) * rows / shards`.
    ///
    /// # Errors
    /// When `shards` is 0 or above 2^32 - 1; otherwise as for [`alloc`](Arena::alloc).
    pub fn alloc_sharded<T: Pod>(
        &self,
        rows: usize,
        row_len: usize,
        shards: usize,
    ) -> Result<Sharded<T>, ArenaError> {
        let handles = u32::try_from(shards).ok().filter(|shards| *shards > 0);
        let Some(handles) = handles else {
            return Err(ArenaError::Shards { arena: self.name.clone(), rows, shards });
        };
        let len = rows as u128 * row_len as u128;
        let span = self.span::<T>(len, handles)?;
        Ok(Sharded::new(Buffer::new(span, rows * row_len), rows, row_len))
    }

    /// Finds a place for `len` elements under `handles` handles.
    fn span<T: Pod>(&self, len: u128, handles: u32) -> Result<Span, ArenaError> {
        let () = Buffer::<T>::CHECKED;
        let size = size_of::<T>();
        // Room for the padding, within what one allocation may span, and what a task can note.
        let most = u128::from((isize::MAX as u64 - 4096).min(LeasedLen::LIMIT - 1));
        let asked = match len.checked_mul(size as u128) {
            Some(bytes) if bytes <= most => bytes as usize,
            _ => return Err(ArenaError::TooLarge { arena: self.name.clone(), len, size }),
        };
        let mut ring = lock(&self.ring);
        let slot = ring.slots[ring.current];
        let Some(generation) = ring.open else {
            return Err(ArenaError::Ended { arena: self.name.clone() });
        };
        let mut memory = slot.memory();
        if asked == 0 {
            let handle = memory
                .alloc_empty(handles)
                .map_err(|reason| self.refuse(reason, asked, handles, generation, 0))?;
            return Ok(Span { slot, generation, handle, handles, data: Span::NOWHERE });
        }
        let headroom = self.plan.limit.map_or(usize::MAX, |limit| limit.saturating_sub(ring.held));
        match memory.alloc(asked, handles, headroom) {
            Ok(place) => {
                ring.held += place.growth;
                let (handle, data) = (place.handle, place.data);
                Ok(Span { slot, generation, handle, handles, data })
            }
            Err(reason) => {
                ring.limit_refusals += u64::from(matches!(reason, NoPlace::Limit { .. }));
                Err(self.refuse(reason, asked, handles, generation, ring.held))
            }
        }
    }

    #[cold]
    fn refuse(
        &self,
        reason: NoPlace,
        asked: usize,
        handles: u32,
        generation: u32,
        used: usize,
    ) -> ArenaError {
        let arena = self.name.clone();
        match reason {
            NoPlace::Limit { largest } => {
                let limit = self.plan.limit.unwrap_or(usize::MAX);
                ArenaError::Limit { arena, generation, asked, used, limit, largest }
            }
            NoPlace::Handles => ArenaError::OutOfHandles { arena, asked: handles },
            NoPlace::System(source) => ArenaError::OutOfMemory { arena, asked, source },
        }
    }

    /// Ends the present generation and begins one on the next slot of the ring. Waits only if
    /// tasks still use what that slot held; the wait is a barrier in the trace.
    ///
    /// # Errors
    /// Inside the body of a task, and while the calling thread holds a guard on a buffer of the
    /// slot that it would wait for: nothing has changed then. When the runtime refuses to wait
    /// because this thread holds other acquired data that tasks wait for: the present
    /// generation has ended, and the call may be repeated. When a task failed that was not
    /// reported yet: the new generation has begun.
    #[track_caller]
    pub fn next(&self) -> Result<(), ArenaError> {
        self.turn(Turn::Next)
    }

    /// Ends the present generation, waits for the tasks that use it (a barrier in the trace),
    /// and begins another one on the same slot.
    ///
    /// # Errors
    /// As for [`next`](Arena::next).
    #[track_caller]
    pub fn reset(&self) -> Result<(), ArenaError> {
        self.turn(Turn::Reset)
    }

    /// Ends the present generation and waits for nobody: as if a task that writes every buffer
    /// of it were submitted here. Its buffers are refused from now on; the memory is free when
    /// the last task that uses it ends. Allocations need [`next`](Arena::next) (or
    /// [`reset`](Arena::reset)) first. Does nothing if the generation has ended already.
    pub fn recycle(&self) {
        let mut ring = lock(&self.ring);
        if ring.end() {
            ring.recycles += 1;
        }
    }

    #[track_caller]
    fn turn(&self, turn: Turn) -> Result<(), ArenaError> {
        let call = turn.call();
        if in_task_body() {
            return Err(ArenaError::InsideTask { arena: self.name.clone(), call });
        }
        let _turning = lock(&self.turning);
        let (index, target) = self.end_for(turn)?;
        if let State::Closed(_) = target.state() {
            let start = Instant::now();
            let is_free = || !matches!(target.state(), State::Closed(_));
            self.runtime.wait_until(call, Cause::Barrier, &self.barrier, is_free)?;
            let mut ring = lock(&self.ring);
            ring.waits += 1;
            ring.wait_time += start.elapsed();
        }
        lock(&self.ring).begin(index, self);
        Ok(self.runtime.check()?)
    }

    /// Ends the present generation; returns the slot that the ring turns to.
    fn end_for(&self, turn: Turn) -> Result<(usize, &'static SlotHeader), ArenaError> {
        let mut ring = lock(&self.ring);
        let index = match turn {
            Turn::Next => (ring.current + 1) % self.depth,
            Turn::Reset => ring.current,
        };
        if index == ring.slots.len() {
            let memory = Memory::new(self.runtime.clone(), self.plan);
            ring.slots.push(SlotHeader::adopt(&self.name, memory, self.runtime.id()).0);
        }
        let target = ring.slots[index];
        if target.guarded_by_this_thread() {
            let (State::Open(generation) | State::Closed(generation)) = target.state() else {
                unreachable!("a guard keeps its generation from being reclaimed");
            };
            let (arena, call) = (self.name.clone(), turn.call());
            return Err(ArenaError::HoldsGuard { arena, call, generation });
        }
        if ring.end() {
            match turn {
                Turn::Next => ring.recycles += 1,
                Turn::Reset => ring.resets += 1,
            }
        }
        Ok((index, target))
    }

    /// What the arena has counted so far.
    pub fn statistics(&self) -> ArenaStatistics {
        let ring = lock(&self.ring);
        let mut statistics = ArenaStatistics {
            name: self.name.clone(),
            depth: self.depth,
            limit: self.plan.limit,
            held: ring.held,
            generations: ring.generations,
            resets: ring.resets,
            recycles: ring.recycles,
            waits: ring.waits,
            wait_time: ring.wait_time,
            limit_refusals: ring.limit_refusals,
            ..ArenaStatistics::default()
        };
        for slot in &ring.slots {
            let memory = slot.memory();
            statistics.live.add(memory.live());
            statistics.total.add(memory.total());
            statistics.high_water = statistics.high_water.max(memory.high_water());
            statistics.chunks += memory.chunks().len();
            statistics.chunk_bytes += memory.chunks().iter().map(|c| c.size()).sum::<usize>();
            statistics.stale_refusals += slot.refusals();
        }
        statistics
    }
}

impl Ring {
    /// Ends the open generation, if there is one.
    fn end(&mut self) -> bool {
        let open = self.open.take();
        if let Some(generation) = open {
            self.slots[self.current].close(generation);
        }
        open.is_some()
    }

    /// Makes slot `index`, which nobody uses, current.
    fn begin(&mut self, index: usize, arena: &Arena) {
        let generation = match self.slots[index].state() {
            State::Open(generation) => generation,
            // The slot has used its numbers up; another one continues with its memory.
            State::Closed(_) | State::Retired => {
                let (memory, left) = self.slots[index].memory().succeed();
                drop(left);
                self.slots[index].retire();
                let adopted = SlotHeader::adopt(&arena.name, memory, arena.runtime.id());
                self.slots[index] = adopted.0;
                adopted.1
            }
        };
        self.current = index;
        self.open = Some(generation);
        self.generations += 1;
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let ring = self.ring.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        for slot in &ring.slots {
            slot.abandon();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_arena_goes_on_when_a_slot_has_used_its_numbers_up() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        SlotHeader::seed("old", u32::MAX - 2);
        let arena = Arena::builder(&rt, "old").depth(2).build();
        let mut buffers: Vec<Buffer<f32>> = Vec::new();
        for round in 0..12 {
            let buffer = arena.alloc::<f32>(100).unwrap();
            rt.spawn("fill", buffer.write(), move |x| x.fill(round as f32)).unwrap();
            assert_eq!(buffer.acquire().unwrap()[99], round as f32);
            for stale in &buffers {
                assert!(rt.spawn("late", stale.read(), |_| ()).is_err());
            }
            buffers.push(buffer);
            if round % 3 == 0 { arena.reset().unwrap() } else { arena.next().unwrap() }
        }
        let statistics = arena.statistics();
        assert_eq!((statistics.chunks, statistics.total.buffers), (2, 12), "nothing was lost");
        drop(arena);
        // A retired header that returns to the pool is never adopted.
        SlotHeader::seed("end", u32::MAX - 1);
        drop(Arena::new(&rt, "end"));
        let again = Arena::new(&rt, "end");
        again.alloc::<f32>(1).unwrap().acquire().unwrap();
    }
}
