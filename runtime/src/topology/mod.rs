//! How many workers a runtime has, and on which CPUs they run.
//!
//! # The number of workers
//! Without [`Builder::workers`](crate::Builder::workers) a runtime has as many workers as its
//! process may keep busy ([`Limits`]), the least of
//!
//! * the CPUs in the affinity mask of the thread that builds it (`taskset`, `cpuset` groups,
//!   `docker --cpuset-cpus`), and
//! * on Linux the CPU quota of its control groups, rounded up: `cpu.max` of version 2 and
//!   `cpu.cfs_quota_us` of version 1, in the process' group and in all groups above it that are
//!   visible (`docker --cpus`, the limits of Kubernetes and systemd). With 1.5 CPUs, two workers
//!   can use all of it; one could not.
//!
//! Both are read once, when the runtime is built. CPU shares and weights, and the load of other
//! processes, do not count.
//!
//! # Pinning
//! With [`Pin::Cores`] each worker stays on a CPU of its own:
//!
//! ```
//! use millrace_runtime::{Runtime, topology::{Limits, Pin}};
//!
//! let pin = if cfg!(target_os = "linux") { Pin::Cores } else { Pin::No };
//! let rt = Runtime::builder().workers(1).pin(pin).build()?;
//! println!("{} of at most {}", rt.topology(), Limits::of_process().workers());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A thread that the runtime has not started is never pinned: where worker 0 is whichever thread
//! waits ([`Builder::main_helps`](crate::Builder::main_helps)), its CPU is left free for that
//! thread, and the others are pinned as if it were there. A thread that a body or a start hook
//! starts inherits the CPU of its worker.

mod affinity;
mod cgroup;
mod cores;
mod limits;

use std::fmt;

pub use limits::{Limits, WorkersFrom};

/// Whether workers stay on one CPU: [`Builder::pin`](crate::Builder::pin).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pin {
    /// They run where the system puts them.
    #[default]
    No,
    /// Each on a CPU of its own, from those that the process may use: worker `i` on the `i`-th,
    /// counting one of every physical core before their hyper-thread siblings. Where the system
    /// does not tell which CPUs are siblings (`/sys/devices/system/cpu`), they count by number.
    ///
    /// Two runtimes that are pinned so share their CPUs; give them [`Cpus`](Pin::Cpus).
    Cores,
    /// Worker `i` on the CPU with the `i`-th of these numbers, as the system counts them. More
    /// than there are workers may be given, and one several times.
    Cpus(Vec<usize>),
}

/// Why workers could not be pinned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PinError {
    /// The system does not say which CPUs a thread may use, or cannot bind it to one.
    #[error("workers cannot be pinned on this system")]
    Unsupported,
    /// There are more workers than CPUs for them.
    #[error("{workers} workers cannot be pinned to {cpus} CPUs: each needs one of its own")]
    TooFewCpus {
        /// Number of workers.
        workers: usize,
        /// CPUs that the process may use, or that were given.
        cpus: usize,
    },
    /// The process may not use a CPU that was given.
    #[error("worker {worker} cannot be pinned to CPU {cpu}, which this process may not use")]
    NotAllowed {
        /// Index of the worker.
        worker: usize,
        /// Number of the CPU.
        cpu: usize,
    },
    /// The system refused it.
    #[error("worker {worker} could not be pinned to CPU {cpu}: {source}")]
    Refused {
        /// Index of the worker.
        worker: usize,
        /// Number of the CPU.
        cpu: usize,
        /// The system's reason.
        source: std::io::Error,
    },
}

/// What was decided about the workers of a runtime:
/// [`Runtime::topology`](crate::Runtime::topology).
///
/// Displayed, it is one line such as `2 workers (a quota of 1.5 CPUs), on CPUs 0 1`.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    limits: Limits,
    source: WorkersFrom,
    pinned: Box<[Option<usize>]>,
}

impl Topology {
    /// Decides for so many workers, or as many as the limits allow, but not more than `most`;
    /// `helps` says whether worker 0 is a thread of the user.
    pub(crate) fn decide(
        asked: Option<usize>,
        most: usize,
        pin: &Pin,
        helps: impl FnOnce(usize) -> bool,
    ) -> Result<Self, PinError> {
        let limits = Limits::of_process();
        let (workers, source) = match asked {
            Some(workers) => (workers, WorkersFrom::Asked),
            None => (limits.workers().min(most), limits.source()),
        };
        let mut pinned = cores::places(pin, workers, limits.cpus())?;
        if helps(workers)
            && let Some(first) = pinned.first_mut()
        {
            *first = None;
        }
        Ok(Topology { limits, source, pinned })
    }

    /// Number of workers.
    pub fn workers(&self) -> usize {
        self.pinned.len()
    }

    /// What that number comes from.
    pub fn source(&self) -> WorkersFrom {
        self.source
    }

    /// What the process was allowed when the runtime was built.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The CPU that each worker is pinned to, if it is.
    pub fn pinned(&self) -> &[Option<usize>] {
        &self.pinned
    }
}

/// Binds the calling thread, which is that worker, to its CPU.
pub(crate) fn pin_worker(topology: &Topology, worker: usize) -> Result<(), PinError> {
    match topology.pinned.get(worker).copied().flatten() {
        None => Ok(()),
        Some(cpu) => affinity::bind(cpu).map_err(|source| match source.kind() {
            std::io::ErrorKind::Unsupported => PinError::Unsupported,
            _ => PinError::Refused { worker, cpu, source },
        }),
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workers = self.workers();
        write!(f, "{workers} worker{} (", if workers == 1 { "" } else { "s" })?;
        match (self.source, self.limits.quota()) {
            (WorkersFrom::Quota, Some(quota)) => write!(f, "a quota of {quota} CPUs)")?,
            (WorkersFrom::Asked, _) => f.write_str("as asked)")?,
            _ => f.write_str("the CPUs that the process may use)")?,
        }
        let cpus: Vec<_> = self.pinned.iter().flatten().map(usize::to_string).collect();
        if cpus.is_empty() {
            return f.write_str(", not pinned");
        }
        write!(f, ", on CPUs {}", cpus.join(" "))?;
        if cpus.len() < workers {
            f.write_str(", worker 0 not pinned")?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn topology(pinned: &[Option<usize>], source: WorkersFrom) -> Topology {
        let limits = Limits::new(Some(vec![0, 1]), 2, cgroup::Quota::new(150_000, 100_000));
        Topology { limits, source, pinned: pinned.into() }
    }

    #[test]
    fn one_line_says_what_was_decided() {
        for (pinned, source, line) in [
            (&[][..], WorkersFrom::Asked, "0 workers (as asked), not pinned"),
            (
                &[None],
                WorkersFrom::Affinity,
                "1 worker (the CPUs that the process may use), not pinned",
            ),
            (
                &[Some(0), Some(3)],
                WorkersFrom::Quota,
                "2 workers (a quota of 1.5 CPUs), on CPUs 0 3",
            ),
            (
                &[None, Some(3)],
                WorkersFrom::Asked,
                "2 workers (as asked), on CPUs 3, worker 0 not pinned",
            ),
        ] {
            assert_eq!(topology(pinned, source).to_string(), line);
        }
    }

    #[test]
    fn a_helping_thread_leaves_the_places_of_the_others_as_they_are() {
        let one = Limits::of_process().cpus().expect("known on Linux")[0];
        let pin = Pin::Cpus(vec![one; 3]);
        let decide = |helps| Topology::decide(Some(3), 3, &pin, |_| helps).expect("allowed");
        assert_eq!(decide(false).pinned(), [Some(one); 3]);
        assert_eq!(decide(true).pinned(), [None, Some(one), Some(one)]);
    }
}
