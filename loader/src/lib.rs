//! Data sets and batch loaders that decode in runtime tasks.
//!
//! A [`Dataset`] is labelled images in memory: read from IDX files ([`idx`]) or CIFAR's
//! ([`cifar`]), or the [`embedded`] one that needs no file. Anything else that has labelled
//! samples is a data set through the trait [`Samples`]. A [`Loader`] gives either out in batches
//! of plain buffers: it copies a `Dataset` into an arena ([`Loader::new`]), and has its tasks
//! decode any `Samples` into the batch ([`Loader::over`]). Whoever trains declares these buffers
//! to its tasks and knows nothing of the loader; the loader knows nothing of networks. Samples
//! that are expensive to make come from [`producers`], which run ahead of the trainer.
//!
//! ```
//! use millrace_loader::{Loader, LoaderConfig, LoaderKind, embedded};
//! use millrace_runtime::Runtime;
//!
//! let (train, _) = embedded();
//! let rt = Runtime::builder().workers(2).build()?;
//! let config = LoaderConfig { batch_size: 1000, shards: 4, ..LoaderConfig::default() };
//! let mut loader = Loader::new(&rt, LoaderKind::Advanced, &train, config)?;
//!
//! let (send, sums) = std::sync::mpsc::channel();
//! while let Some(batch) = loader.next()? {
//!     // This runs when the batch has arrived; the loop goes on meanwhile.
//!     let send = send.clone();
//!     rt.spawn("sum", batch.images.whole().read(), move |images| {
//!         send.send(images.iter().map(|&value| f64::from(value)).sum::<f64>()).unwrap();
//!     })?;
//! }
//! rt.wait()?;
//! drop(send);
//! let mean = sums.iter().sum::<f64>() / train.images().len() as f64;
//! assert!((mean - 0.2857).abs() < 1e-4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Invariants
//! * **One stream.** The batches, bit for bit, depend on the data set and on batch size, epochs,
//!   shuffle and seed; not on the kind of loader, the shards, the workers, or time.
//! * **Every sample once per epoch.** The last batch of an epoch has what is left.
//! * **No epoch edge.** The next epoch's first batch is loaded ahead like any other.
//! * **Bounded memory.** A loader holds its copy of the data set and a fixed number of slots of
//!   one batch each. From the second epoch on it allocates nothing there.
//! * **Input is not trusted.** Each malformed file is a [`DataError`] that says file, byte and
//!   reason; what a header merely claims is never allocated.
//!
//! # The four loaders
//! All decode in tasks named `load`, one for each shard of a batch. The kinds differ in when
//! these are submitted, and in what the calling thread waits for. A batch's memory is a *slot*,
//! an arena of its own; batch *i* uses slot *i* modulo their number.
//!
//! In the tables, row *k* is what happens between two batches of this loop:
//! ```text
//! while let Some(batch) = loader.next()? {        // the loader's part
//!     activations.next()?;                        // the trainer's own arena, of depth d
//!     submit(batch)?;                             // T(k)
//! }
//! ```
//! L(i): the loads of batch i are submitted. T(i): the trainer's tasks on batch i are submitted.
//! R(i): the slot of batch i is recycled, without waiting. W(i): the calling thread waits until
//! no task uses batch i any more: a barrier, unless it is so already.
//!
//! **naive**, 1 slot. Nothing is loaded while a batch is in work, and workers run dry at W.
//!
//! | call | loader | trainer |
//! |------|--------------|------|
//! | 0 | L(0) | T(0) |
//! | 1 | W(0) L(1) | T(1) |
//! | k | W(k-1) L(k) | T(k) |
//!
//! **prefetch**, 2 slots. Batch k is there when call k begins, and k+1 arrives while k is in
//! work; but the slot for k+1 is that of k-1, so that workers still run dry at W.
//!
//! | call | loader | trainer |
//! |------|--------------|------|
//! | 0 | L(0) L(1) | T(0) |
//! | 1 | W(0) L(2) | T(1) |
//! | k | W(k-1) L(k+1) | T(k) |
//!
//! **double**, 2 slots. A batch is loaded only when it is asked for, but while the last one is
//! still in work: two batches may be under way at once.
//!
//! | call | loader | trainer |
//! |------|--------------|------|
//! | 0 | L(0) | T(0) |
//! | 1 | R(0) L(1) | T(1) |
//! | 2 | R(1) W(0) L(2) | T(2) |
//! | k | R(k-1) W(k-2) L(k) | T(k) |
//!
//! **advanced**, a ring of r slots ([`LoaderConfig::ring`], 3 by default). Loads ahead like
//! prefetch, and takes a slot whose batch was recycled earlier.
//!
//! | call | loader | trainer |
//! |------|--------------|------|
//! | 0 | L(0) L(1) | T(0) |
//! | 1 | R(0) L(2) | T(1) |
//! | 2, r = 3 | R(1) W(0) L(3) | T(2) |
//! | k | R(k-1) W(k+1-r) L(k+1) | T(k) |
//!
//! Whether the last W is a wait depends on how far the trainer runs ahead. With an arena of
//! depth d for its activations, it has waited for batch k-1-d before T(k-1). So:
//!
//! | d | r = 3 | never a wait in the loader with |
//! |---|-------|------------------------|
//! | 1 | W(k-2), done since before T(k-1): no wait | r = 3 |
//! | 2 | W(k-2), which the trainer's arena would wait for next, before T(k) | r = 4 |
//! | n | W(k-2), earlier than the arena's W(k-n): the ring is the bound, 2 batches | r = n + 2 |
//!
//! A wait for k-2 leaves the tasks of k-1 to the workers; it holds back the calling thread, not
//! them.
mod bad_samples;
pub mod check;
pub mod cifar;
mod config;
mod dataset;
mod embedded;
mod error;
pub mod folder;
pub mod idx;
pub mod images;
mod input;
mod kind;
mod loader;
pub mod npy;
pub mod open;
mod order;
mod plan;
mod pool;
pub mod producers;
mod samples;
pub mod sheet;
mod source;
mod split;
#[cfg(test)]
mod testing;
pub mod transform;

pub use bad_samples::{BadSample, BadSamples};
pub use config::LoaderConfig;
pub use dataset::Dataset;
pub use embedded::embedded;
pub use error::{DataError, LoaderError, Position, Reason, SampleError};
pub use kind::{LoaderKind, UnknownKind};
pub use loader::{Batch, Loader};
pub use order::sample_order;
pub use samples::{LabelKind, SamplePlace, Samples};
pub use split::{SplitError, Subset};

/// Number of classes of the data sets that come in IDX form.
pub const CLASSES: usize = 10;
