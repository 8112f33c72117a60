//! Building a runtime.

use std::sync::Arc;

use crate::error::BuildError;
use crate::pool;
use crate::runtime::{Inner, Runtime, Settings};
use crate::scheduler::Schedule;
use crate::topology::{Pin, Topology};
use crate::trace::Keep;
use crate::watchdog::{Patrolling, Watchdog};

/// Describes a runtime: [`Runtime::builder`].
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    workers: Option<usize>,
    pin: Pin,
    window: u64,
    memory_window: Option<u64>,
    timing: bool,
    main_helps: bool,
    schedule: Schedule,
    trace_capacity: usize,
    trace_keep: Keep,
    watchdog: Option<Watchdog>,
    hook: Option<Box<dyn Fn(usize) + Send + Sync>>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("workers", &self.workers)
            .field("pin", &self.pin)
            .field("window", &self.window)
            .field("memory_window", &self.memory_window)
            .field("timing", &self.timing)
            .field("main_helps", &self.main_helps)
            .field("schedule", &self.schedule)
            .field("trace_capacity", &self.trace_capacity)
            .field("trace_keep", &self.trace_keep)
            .field("watchdog", &self.watchdog)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// The most workers that a runtime may have.
    pub const MAX_WORKERS: usize = 1024;

    pub(crate) fn new() -> Self {
        Builder {
            workers: None,
            pin: Pin::No,
            window: 16_384,
            memory_window: None,
            timing: true,
            main_helps: false,
            schedule: Schedule::work_stealing(),
            trace_capacity: 4 << 20,
            trace_keep: Keep::Oldest,
            watchdog: None,
            hook: None,
        }
    }

    /// Number of workers; the default is as many as the process may keep busy, by its affinity
    /// mask and the CPU quota of its control groups ([`topology`](crate::topology)).
    /// With 0, each task runs inside `spawn`, on the submitting thread, in program order. With
    /// two or more, worker 0 may be a thread that waits ([`main_helps`](Self::main_helps)).
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Whether each worker stays on one CPU; not by default. It keeps caches warm on a machine
    /// that is the program's alone; where others use the same CPUs, a pinned worker waits for them
    /// while other CPUs are idle. A thread of the user's is never pinned
    /// ([`topology`](crate::topology)).
    ///
    /// ```
    /// # use millrace_runtime::{BuildError, Runtime, topology::Pin};
    /// match Runtime::builder().workers(2).pin(Pin::Cores).build() {
    ///     Ok(rt) => println!("{}", rt.topology()),
    ///     Err(BuildError::Pin(error)) => println!("{error}"), // On one CPU, or on another system.
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok::<(), BuildError>(())
    /// ```
    pub fn pin(mut self, pin: Pin) -> Self {
        self.pin = pin;
        self
    }

    /// How many tasks may be unfinished before `spawn` waits; 16,384 by default.
    pub fn window(mut self, tasks: usize) -> Self {
        self.window = tasks as u64;
        self
    }

    /// How many bytes unfinished tasks may declare
    /// ([`Claims::declare_bytes`](crate::Claims::declare_bytes)) before `spawn` waits; without a bound by
    /// default. Memory that several tasks declare counts once for each, and such that a thread has
    /// acquired does not count. It costs some nanoseconds per task, and nothing if it is not set.
    ///
    /// A task that declares more than that is let in while no other unfinished one declares any.
    /// Bodies, and threads that hold acquired data, may exceed the bound. Threads that wait here
    /// go on in the order in which they came.
    ///
    /// ```
    /// # use millrace_runtime::{Access, Claims, Mode, Runtime, SubmitError, trace::Cause};
    /// # struct Buffer(usize);
    /// # unsafe impl Access for Buffer {
    /// #     type Claim = ();
    /// #     type Data<'a> = ();
    /// #     fn claim(self, claims: &mut Claims) -> Result<(), SubmitError> {
    /// #         claims.declare_bytes(0..0, 0, Mode::Read, self.0);
    /// #         Ok(())
    /// #     }
    /// #     unsafe fn data(_: &mut ()) {}
    /// # }
    /// let rt = Runtime::builder().workers(2).memory_window(1 << 20).build()?;
    /// for _ in 0..100 {
    ///     rt.spawn("load", Buffer(400_000), |()| ())?; // Two at a time.
    /// }
    /// rt.wait()?;
    /// println!("waited for {} ns", rt.statistics().wait_ns(Cause::Memory));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn memory_window(mut self, bytes: usize) -> Self {
        self.memory_window = Some(bytes as u64);
        self
    }

    /// Whether the time in bodies and the idle time by cause are counted
    /// ([`Statistics`](crate::Statistics)); on by default. It costs two clock reads per task.
    pub fn timing(mut self, timing: bool) -> Self {
        self.timing = timing;
        self
    }

    /// Whether, with two or more workers, worker 0 is the thread outside the pool that waits for
    /// tasks: it runs tasks until what it waits for has come about. That suits many small tasks,
    /// since waking a thread costs as much as many of them, and a main thread that waits most of
    /// the time; while no thread waits, the other workers are alone.
    ///
    /// Off by default: bodies must not wait for something that the waiting thread does later (it
    /// could be inside such a body), and a wait may last until the task that the thread runs at
    /// the time has ended.
    pub fn main_helps(mut self, helps: bool) -> Self {
        self.main_helps = helps;
        self
    }

    /// Which worker runs which ready task next; [work stealing](Schedule::work_stealing) by
    /// default. Without workers it has no effect.
    pub fn scheduler(mut self, schedule: Schedule) -> Self {
        self.schedule = schedule;
        self
    }

    /// How many spans a trace keeps of each thread until it is taken; 4 million by default. A
    /// span takes 32 bytes, allocated as they come. What does not fit is lost, and the trace says
    /// so ([`Trace::losses`](crate::trace::Trace::losses)).
    pub fn trace_capacity(mut self, spans: usize) -> Self {
        self.trace_capacity = spans;
        self
    }

    /// Which spans a full trace keeps: the oldest by default. The newest are for finding out what
    /// led to something, by a trace that always runs and is taken afterwards.
    pub fn trace_keep(mut self, keep: Keep) -> Self {
        self.trace_keep = keep;
        self
    }

    /// Watches whether tasks go on, and tells who waits for whom when nothing has moved for a
    /// while ([`watchdog`](crate::watchdog)); nobody does by default.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use millrace_runtime::{Runtime, watchdog::Watchdog};
    /// let watchdog = Watchdog::after(Duration::from_secs(10)); // To standard error.
    /// let rt = Runtime::builder().workers(2).watchdog(watchdog).build()?;
    /// # Ok::<(), millrace_runtime::BuildError>(())
    /// ```
    pub fn watchdog(mut self, watchdog: Watchdog) -> Self {
        self.watchdog = Some(watchdog);
        self
    }

    /// Calls `hook` with the worker's index on each worker thread before it takes tasks, for
    /// what belongs to a thread (hardware counters), after the thread is [pinned](Self::pin). For a
    /// worker 0 that is a waiting thread it is called on the calling thread. `build` returns after
    /// all calls.
    pub fn on_worker_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.hook = Some(Box::new(hook));
        self
    }

    /// Starts the workers.
    ///
    /// # Errors
    /// When there are too many workers, the window is 0, the system refuses a thread, workers
    /// cannot be pinned as asked, the placement is for another number of them, or the start hook
    /// panics.
    pub fn build(self) -> Result<Runtime, BuildError> {
        let most = Self::MAX_WORKERS;
        if let Some(asked) = self.workers.filter(|asked| *asked > most) {
            return Err(BuildError::TooManyWorkers { asked, most });
        }
        if self.window == 0 {
            return Err(BuildError::EmptyWindow);
        }
        let helps = |workers| self.main_helps && workers > 1;
        let topology = Topology::decide(self.workers, most, &self.pin, helps)?;
        let workers = topology.workers();
        if let Some(placed) = self.schedule.workers
            && placed != workers
        {
            return Err(BuildError::Placement { placed, workers });
        }
        let helps = helps(workers);
        let (inner, contexts) = Inner::new(Settings {
            workers,
            helps,
            window: self.window,
            memory_window: self.memory_window,
            timing: self.timing,
            schedule: if workers == 0 { Schedule::work_stealing() } else { self.schedule },
            trace_capacity: self.trace_capacity,
            trace_keep: self.trace_keep,
            topology,
            watched: self.watchdog.is_some(),
        });
        let inner = Arc::new(inner);
        let start = |watchdog| Patrolling::start(&inner, watchdog);
        let watchdog = self.watchdog.map(start).transpose();
        let watchdog = watchdog.map_err(|source| BuildError::Watchdog { source })?;
        let threads = pool::start(&inner, contexts, self.hook)?;
        Ok(Runtime::from_parts(inner, threads, watchdog))
    }
}
