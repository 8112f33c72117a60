//! Grouped arenas whose buffers are data handles of the task runtime.
//!
//! An [`Arena`] hands out [`Buffer`]s of one lifetime: the data set, the weights, or one batch.
//! Tasks declare how they use a buffer and are handed its memory as a slice; the runtime infers
//! from that which task depends on which. When the lifetime ends, the arena ends a *generation*
//! and the memory is used again, without a call to the allocator:
//!
//! * [`reset`](Arena::reset) waits for the tasks that use it: a barrier.
//! * [`recycle`](Arena::recycle) waits for nobody: the memory is free when the last task ends.
//! * [`next`](Arena::next) recycles and turns to the next of the arena's slots. It waits only
//!   if that one is still busy; so with a depth of 2 one batch is filled while another is used.
//!
//! ```
//! use millrace_arena::Arena;
//! use millrace_runtime::Runtime;
//!
//! let rt = Runtime::builder().workers(2).build()?;
//! let weights = Arena::new(&rt, "weights");
//! let total = weights.alloc::<f32>(1)?;
//! rt.spawn("clear", total.overwrite(), |total| total[0] = 0.0)?;
//!
//! let batches = Arena::builder(&rt, "batch").depth(2).build();
//! let mut old = None;
//! for batch in 0..10 {
//!     let x = batches.alloc_sharded::<f32>(100, 8, 4)?; // 100 rows of 8 in 4 shards
//!     for i in 0..x.shards() {
//!         rt.spawn("fill", x.shard(i).overwrite(), move |x| x.fill(batch as f32))?;
//!     }
//!     rt.spawn("sum", (x.whole().read(), total.write()), |(x, total)| {
//!         total[0] += x.iter().sum::<f32>();
//!     })?;
//!     old = Some(x.whole());
//!     batches.next()?; // the tasks still run; their memory is used again when they have ended
//! }
//! assert_eq!(total.acquire()?[0], 45.0 * 800.0); // waits for the last `sum`, and only for it
//!
//! // A buffer that was kept too long is refused, in program order, never read.
//! let error = old.unwrap().acquire().unwrap_err().to_string();
//! assert!(error.contains("`batch`") && error.contains("ended"), "{error}");
//! // From the second round on the same work has made no further chunk.
//! assert_eq!(batches.statistics().chunks, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Recorded graphs
//! A graph that is the same for each batch is recorded once and replayed with the buffers of each
//! ([`millrace_runtime::replay`]). Buffers and sharded buffers are parameters of a recording;
//! [`BufferParameter`] and [`ShardedParameter`] have their accesses.
//!
//! ```
//! use millrace_arena::{Arena, BufferParameter, ShardedParameter};
//! use millrace_runtime::Runtime;
//! use millrace_runtime::replay::ReplayError;
//!
//! let rt = Runtime::builder().workers(2).build()?;
//! let weights = Arena::new(&rt, "weights");
//! let weights = weights.alloc::<f32>(8)?;
//! rt.spawn("init", weights.overwrite(), |w| w.fill(0.0))?;
//!
//! // What each batch allocates: 100 images of 8 values in 4 shards, and a gradient per shard.
//! let batches = Arena::builder(&rt, "batch").depth(2).build();
//! let allocate = || batches.alloc_sharded::<f32>(100, 8, 4);
//! let gradients = || batches.alloc_sharded::<f32>(4, 8, 4);
//!
//! // Recorded with the buffers of batch 0.
//! let mut recording = rt.record();
//! let (w, x) = (recording.parameter(weights)?, recording.parameter(allocate()?)?);
//! let g = recording.parameter(gradients()?)?;
//! for shard in 0..4 {
//!     let data = (x.shard(shard).read(), g.shard(shard).overwrite());
//!     recording.spawn("gradient", data, |(x, g)| {
//!         g.fill(0.0);
//!         x.chunks(8).for_each(|image| g.iter_mut().zip(image).for_each(|(g, x)| *g += x));
//!     })?;
//! }
//! recording.spawn("update", (w.write(), g.whole().read()), |(w, g)| {
//!     g.chunks(8).for_each(|g| w.iter_mut().zip(g).for_each(|(w, g)| *w -= g));
//! })?;
//! let mut graph = recording.finish();
//!
//! // Replayed with the buffers of each.
//! for batch in 0..10 {
//!     let images = allocate()?;
//!     rt.spawn("load", images.whole().overwrite(), move |x| x.fill(batch as f32))?;
//!     graph.bind(&x, images)?;
//!     graph.bind(&g, gradients()?)?;
//!     graph.set_batch(Some(batch));
//!     graph.replay()?;
//!     batches.next()?;
//! }
//! assert_eq!(weights.acquire()?[7], -4500.0);
//!
//! // The last batch is over; and a smaller one needs a recording of its own.
//! let error = graph.replay().unwrap_err().to_string();
//! assert!(error.contains("a buffer of `batch` from generation"), "{error}");
//! let small = batches.alloc_sharded::<f32>(60, 8, 4)?;
//! assert!(matches!(graph.bind(&x, small), Err(ReplayError::Shape { .. })));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! * **Memory is reached through accesses and guards only.** A [`Buffer`] has no dereference.
//!   Writing through a reading access does not compile:
//!   ```compile_fail,E0594
//!   # use millrace_arena::Arena;
//!   # use millrace_runtime::Runtime;
//!   # let rt = Runtime::builder().build().unwrap();
//!   # let x = Arena::new(&rt, "a").alloc::<f32>(1).unwrap();
//!   rt.spawn("write", x.read(), |x| x[0] = 1.0).unwrap();
//!   ```
//!   nor does a body that borrows the stack of the thread that submits it:
//!   ```compile_fail,E0597
//!   # use millrace_arena::Arena;
//!   # use millrace_runtime::Runtime;
//!   # let rt = Runtime::builder().build().unwrap();
//!   # let x = Arena::new(&rt, "a").alloc::<f32>(1).unwrap();
//!   let values = vec![1.0];
//!   let values = values.as_slice();
//!   rt.spawn("copy", x.write(), |x| x.copy_from_slice(values)).unwrap();
//!   ```
//! * **Use after the end of a generation is impossible.** A buffer of an ended generation, also
//!   of a dropped arena, is refused with
//!   [`SubmitError::Stale`](millrace_runtime::SubmitError::Stale). Staleness follows program
//!   order, never timing.
//! * **Memory is used again only when nobody uses it.** Each task holds a lease on the
//!   generations that it uses; the last lease out of an ended generation rewinds it, on whatever
//!   thread that happens. `lease.rs` and `gate.rs` state the protocol; loom checks it
//!   (`tests/loom_lease.rs`).
//! * **Memory is always initialised**, aligned to 64 bytes, and disjoint between buffers.
//! * **Nothing is given back between generations.** The same allocations find the same places,
//!   so that from the second round on none is made.
//! * **No call waits for itself.** Turning the ring inside a body, or for memory that the calling
//!   thread holds a guard on, is an error.
//!
//! On machines with several memory nodes mapped chunks lie where they are first written; that
//! was not measured.

mod arena;
mod buffer;
mod builder;
mod chunk;
mod error;
mod gate;
mod guard;
mod lease;
mod memory;
mod recorded;
mod reduction;
mod scratch;
mod sharded;
mod slot;
mod statistics;
mod sync;

pub use arena::Arena;
pub use buffer::{Buffer, Commute, Overwrite, Read, Write};
pub use builder::Builder;
pub use chunk::Backing;
pub use error::ArenaError;
pub use guard::{ReadGuard, WriteGuard};
pub use recorded::{
    BufferLease, BufferParameter, BufferShape, RecordedBuffer, RecordedRead, RecordedWrite,
    ShardedParameter,
};
pub use reduction::Reduction;
pub use scratch::{Scratch, ScratchBlock, ScratchStatistics, scratch, scratch_statistics};
pub use sharded::Sharded;
pub use statistics::{ArenaStatistics, Usage};
