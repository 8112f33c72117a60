//! What the system allows the process.

use std::path::Path;
use std::thread::available_parallelism;

use super::affinity;
use super::cgroup::{self, Quota};

/// What a number of workers comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkersFrom {
    /// It was asked for.
    Asked,
    /// The CPUs that the process may use.
    Affinity,
    /// The CPU quota of the process' control groups.
    Quota,
}

/// How many CPUs a process may keep busy; the [module](super) says what counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    cpus: Option<Vec<usize>>,
    /// How many CPUs there are for the process.
    count: usize,
    quota: Option<Quota>,
}

impl Limits {
    pub(super) fn new(cpus: Option<Vec<usize>>, count: usize, quota: Option<Quota>) -> Self {
        Limits { cpus, count, quota }
    }

    /// Reads the limits of this process, as they are for the calling thread.
    pub fn of_process() -> Self {
        let cpus = affinity::allowed();
        // Elsewhere, and where the mask cannot be read, the standard library knows best.
        let count = cpus.as_ref().map(Vec::len);
        let count = count.unwrap_or_else(|| available_parallelism().map_or(1, usize::from));
        Limits::new(cpus, count, cgroup::quota(Path::new("/")))
    }

    /// The CPUs in the affinity mask, by their numbers; `None` where it cannot be read.
    pub fn cpus(&self) -> Option<&[usize]> {
        self.cpus.as_deref()
    }

    /// The tightest CPU quota, in CPUs; `None` if there is none.
    pub fn quota(&self) -> Option<f64> {
        self.quota.map(Quota::cpus)
    }

    /// How many workers the process can keep busy, at least 1.
    pub fn workers(&self) -> usize {
        self.quota.map_or(self.count, |quota| quota.workers().min(self.count))
    }

    /// What decides that number.
    pub fn source(&self) -> WorkersFrom {
        match self.quota {
            Some(quota) if quota.workers() < self.count => WorkersFrom::Quota,
            _ => WorkersFrom::Affinity,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_decides() {
        for (count, quota, workers, source) in [
            (4, None, 4, WorkersFrom::Affinity),
            (4, Some(150_000), 2, WorkersFrom::Quota),
            (4, Some(10_000), 1, WorkersFrom::Quota),
            (4, Some(400_000), 4, WorkersFrom::Affinity),
            (2, Some(300_000), 2, WorkersFrom::Affinity),
            (1, Some(10_000), 1, WorkersFrom::Affinity),
        ] {
            let quota = quota.and_then(|quota| Quota::new(quota, 100_000));
            let limits = Limits::new(None, count, quota);
            assert_eq!((limits.workers(), limits.source()), (workers, source), "{limits:?}");
        }
    }
}
