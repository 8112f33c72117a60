//! Building a runtime.

use std::sync::Arc;

use crossbeam_deque::Worker;

use crate::error::BuildError;
use crate::pool;
use crate::runtime::{Inner, Runtime};

/// Describes a runtime: [`Runtime::builder`].
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    workers: Option<usize>,
    window: u64,
    timing: bool,
    hook: Option<Box<dyn Fn(usize) + Send + Sync>>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("workers", &self.workers)
            .field("window", &self.window)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// The most workers that a runtime may have.
    pub const MAX_WORKERS: usize = 1024;

    pub(crate) fn new() -> Self {
        Builder { workers: None, window: 4096, timing: true, hook: None }
    }

    /// Number of worker threads; the default is the number of processors that the process may
    /// use. With 0, each task runs inside `spawn`, on the submitting thread, in program order.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// How many tasks may be unfinished before `spawn` waits; 4096 by default.
    pub fn window(mut self, tasks: usize) -> Self {
        self.window = tasks as u64;
        self
    }

    /// Whether the time in bodies and the idle time by cause are counted
    /// ([`Statistics`](crate::Statistics)); on by default. It costs two clock reads per task.
    pub fn timing(mut self, timing: bool) -> Self {
        self.timing = timing;
        self
    }

    /// Calls `hook` with the worker's index on each worker thread before it takes tasks, for
    /// what belongs to a thread (hardware counters, affinity). `build` returns after all calls.
    pub fn on_worker_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// When there are too many workers, the window is 0, the system refuses a thread, or the
    /// start hook panics.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let workers = self
            .workers
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
        if workers > Self::MAX_WORKERS {
            return Err(BuildError::TooManyWorkers { asked: workers, most: Self::MAX_WORKERS });
        }
        if self.window == 0 {
            return Err(BuildError::EmptyWindow);
        }
        let queues: Vec<_> = (0..workers).map(|_| Worker::new_fifo()).collect();
        let (inner, writers) = Inner::new(&queues, self.window, self.timing);
        let inner = Arc::new(inner);
        let threads = pool::start(&inner, queues, writers, self.hook)?;
        Ok(Runtime::from_parts(inner, threads))
    }
}
