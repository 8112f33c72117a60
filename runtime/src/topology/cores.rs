//! Which CPU each worker gets.

use std::fs;
use std::path::Path;

use super::{Pin, PinError};

/// Where Linux describes its CPUs.
const SYSFS: &str = "/sys/devices/system/cpu";

/// The CPUs that workers are pinned to, from those that the process may use.
pub(super) fn places(
    pin: &Pin,
    workers: usize,
    allowed: Option<&[usize]>,
) -> Result<Box<[Option<usize>]>, PinError> {
    let cpus = match (pin, allowed) {
        (Pin::No, _) => return Ok(vec![None; workers].into()),
        (_, None) => return Err(PinError::Unsupported),
        (Pin::Cores, Some(allowed)) => in_order(Path::new(SYSFS), allowed),
        (Pin::Cpus(cpus), Some(allowed)) => {
            let mut wanted = cpus.iter().take(workers).enumerate();
            if let Some((worker, cpu)) = wanted.find(|(_, cpu)| !allowed.contains(cpu)) {
                return Err(PinError::NotAllowed { worker, cpu: *cpu });
            }
            cpus.clone()
        }
    };
    if cpus.len() < workers {
        return Err(PinError::TooFewCpus { workers, cpus: cpus.len() });
    }
    Ok(cpus.into_iter().take(workers).map(Some).collect())
}

/// CPUs by number, but one of each physical core before any further one of a core.
fn in_order(sysfs: &Path, cpus: &[usize]) -> Vec<usize> {
    let cores: Vec<_> = cpus.iter().map(|cpu| core(sysfs, *cpu)).collect();
    // How many CPUs of the same core come before.
    let rank = |place: usize| match &cores[place] {
        None => 0,
        core => cores[..place].iter().filter(|other| *other == core).count(),
    };
    let mut places: Vec<_> = (0..cpus.len()).map(|place| (rank(place), cpus[place])).collect();
    places.sort_unstable();
    places.into_iter().map(|(_, cpu)| cpu).collect()
}

/// What tells a CPU's core from others: the list of the CPUs in it, as the system writes it.
fn core(sysfs: &Path, cpu: usize) -> Option<String> {
    let folder = sysfs.join(format!("cpu{cpu}/topology"));
    // The second is the name until Linux 5.4, still there.
    let files = ["core_cpus_list", "thread_siblings_list"];
    let text = files.iter().find_map(|file| fs::read_to_string(folder.join(file)).ok())?;
    Some(text.trim().to_owned()).filter(|list| !list.is_empty())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn describe(sysfs: &Path, cpu: usize, file: &str, list: &str) {
        let folder = sysfs.join(format!("cpu{cpu}/topology"));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(file), list).expect("a file");
    }

    #[test]
    fn cores_come_before_siblings() {
        let folder = tempfile::tempdir().expect("a folder");
        // Two numberings that exist: siblings far apart, and side by side.
        for cpu in 0..4 {
            describe(
                folder.path(),
                cpu,
                "core_cpus_list",
                &format!("{},{}\n", cpu % 2, cpu % 2 + 2),
            );
        }
        for cpu in 4..8 {
            let first = cpu / 2 * 2;
            describe(
                folder.path(),
                cpu,
                "thread_siblings_list",
                &format!("{first}-{}\n", first + 1),
            );
        }
        let order = |cpus: &[usize]| in_order(folder.path(), cpus);
        assert_eq!(order(&[0, 1, 2, 3]), [0, 1, 2, 3]);
        assert_eq!(order(&[4, 5, 6, 7]), [4, 6, 5, 7]);
        assert_eq!(order(&[0, 2, 3, 4, 5, 7]), [0, 3, 4, 7, 2, 5]);
    }

    #[test]
    fn unknown_cores_count_by_number() {
        let folder = tempfile::tempdir().expect("a folder");
        describe(folder.path(), 1, "core_cpus_list", "\n");
        assert_eq!(in_order(folder.path(), &[3, 1, 0]), [0, 1, 3]);
    }

    #[test]
    fn what_cannot_be_pinned_is_refused() {
        let refused = |pin, workers, allowed| places(&pin, workers, allowed).expect_err("refused");
        assert!(matches!(refused(Pin::Cores, 1, None), PinError::Unsupported));
        assert!(matches!(
            refused(Pin::Cores, 3, Some(&[4, 5])),
            PinError::TooFewCpus { workers: 3, cpus: 2 }
        ));
        assert!(matches!(
            refused(Pin::Cpus(vec![4]), 2, Some(&[4, 5])),
            PinError::TooFewCpus { workers: 2, cpus: 1 }
        ));
        assert!(matches!(
            refused(Pin::Cpus(vec![5, 6]), 2, Some(&[4, 5])),
            PinError::NotAllowed { worker: 1, cpu: 6 }
        ));
        // The second number is nobody's.
        let places = places(&Pin::Cpus(vec![5, 6]), 1, Some(&[4, 5])).expect("allowed");
        assert_eq!(*places, [Some(5)]);
    }
}
