//! The calls by which the system tells and sets where a thread may run.

use std::io;

/// The CPUs that the calling thread may use, in order of their numbers.
#[cfg(target_os = "linux")]
pub(super) fn allowed() -> Option<Vec<usize>> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    // Refused where there are more CPUs than the set has room for.
    let set = sched_getaffinity(None).ok()?;
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
    Some(cpus).filter(|cpus| !cpus.is_empty())
}

/// Binds the calling thread to one CPU.
#[cfg(target_os = "linux")]
pub(super) fn bind(cpu: usize) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn allowed() -> Option<Vec<usize>> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(super) fn bind(_: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
