//! What can go wrong with an arena.

use millrace_runtime::WaitError;

/// Why an arena did not do what it was asked.
///
/// A stale buffer is no arena error: the submission or `acquire` that names it is refused, with
/// [`SubmitError::Stale`](millrace_runtime::SubmitError::Stale).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// The arena's limit would be passed. Nothing was allocated.
    #[error(
        "arena `{arena}`, generation {generation}: {asked} bytes asked, {used} of the limit of \
         {limit} bytes in use, {largest} would still fit"
    )]
    Limit {
        /// The arena's name.
        arena: String,
        /// The present generation of the slot that was to hold the buffer.
        generation: u32,
        /// Bytes asked for, without padding.
        asked: usize,
        /// Bytes that all slots of the arena hold: per slot, the most it ever handed out.
        used: usize,
        /// The limit over all slots, in bytes.
        limit: usize,
        /// The largest buffer that would still fit into this generation, in bytes.
        largest: usize,
    },
    /// No buffer can be so large.
    #[error("arena `{arena}`: {len} elements of {size} bytes are more than a buffer can hold")]
    TooLarge {
        /// The arena's name.
        arena: String,
        /// Elements asked for.
        len: u128,
        /// Bytes of one.
        size: usize,
    },
    /// The system gave no memory.
    #[error("arena `{arena}`: no memory for {asked} bytes: {source}")]
    OutOfMemory {
        /// The arena's name.
        arena: String,
        /// Bytes asked for, without padding.
        asked: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The runtime has no more data handles.
    #[error("arena `{arena}`: the runtime has no {asked} data handles left")]
    OutOfHandles {
        /// The arena's name.
        arena: String,
        /// Handles asked for.
        asked: u32,
    },
    /// A buffer cannot be cut into that many shards.
    #[error("arena `{arena}`: {rows} rows cannot be cut into {shards} shards")]
    Shards {
        /// The arena's name.
        arena: String,
        /// Rows of the buffer.
        rows: usize,
        /// Shards asked for.
        shards: usize,
    },
    /// The parts of a reduction differ in length. Nothing was submitted.
    #[error("reduction `{reduction}`: part {part} has {len} elements, the first has {wanted}")]
    Parts {
        /// Name of the reduction's tasks.
        reduction: &'static str,
        /// Which part, counted from 0.
        part: usize,
        /// Its elements.
        len: usize,
        /// Elements of the first part.
        wanted: usize,
    },
    /// An allocation after `recycle`, before `next` or `reset` began another generation.
    #[error("arena `{arena}`: the generation was recycled; `next` begins another one")]
    Ended {
        /// The arena's name.
        arena: String,
    },
    /// A wait inside the body of a task: it could hold the very worker that must finish first.
    #[error("arena `{arena}`: `{call}` would wait inside the body of a task")]
    InsideTask {
        /// The arena's name.
        arena: String,
        /// What was called.
        call: &'static str,
    },
    /// The calling thread holds a guard on the memory that it would wait for.
    #[error(
        "arena `{arena}`: `{call}` would wait for a guard that this thread holds on a buffer of \
         generation {generation}; drop the guard first"
    )]
    HoldsGuard {
        /// The arena's name.
        arena: String,
        /// What was called.
        call: &'static str,
        /// The generation that the guard keeps alive.
        generation: u32,
    },
    /// A task failed, or waiting was refused by the runtime.
    #[error(transparent)]
    Wait(#[from] WaitError),
}
