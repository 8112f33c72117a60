//! The CPU quota of the process' control groups, versions 1 and 2.
//!
//! `/proc/self/cgroup` names the process' groups and `/proc/self/mountinfo` says where their trees
//! are mounted. A quota holds for a group with all groups below it, so the tightest one on the way
//! from the process' own group up to the mount counts; above the mount nothing can be seen.
//! `available_parallelism` reads the same files, but rounds down, and does not tell the quota.
//! Whatever cannot be read or understood is no limit.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// So many microseconds of CPU time in each period of so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    quota: u64,
    period: u64,
}

impl Quota {
    pub(super) fn new(quota: u64, period: u64) -> Option<Self> {
        (quota > 0 && period > 0).then_some(Quota { quota, period })
    }

    /// In CPUs.
    pub(super) fn cpus(self) -> f64 {
        self.quota as f64 / self.period as f64
    }

    /// How many workers it takes to use all of it.
    pub(super) fn workers(self) -> usize {
        usize::try_from(self.quota.div_ceil(self.period)).unwrap_or(usize::MAX)
    }

    /// The tighter one.
    fn min(self, other: Quota) -> Quota {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let is_less = product(self.quota, other.period) < product(other.quota, self.period);
        if is_less { self } else { other }
    }
}

/// The two kinds of trees that have CPU quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    /// The quota of one group.
    fn read(self, folder: &Path) -> Option<Quota> {
        let read = |file| fs::read_to_string(folder.join(file)).ok();
        match self {
            Version::One => pair(&read("cpu.cfs_quota_us")?, &read("cpu.cfs_period_us")?),
            Version::Two => {
                let text = read("cpu.max")?;
                let (quota, period) = text.split_once(' ')?;
                pair(quota, period)
            }
        }
    }
}

/// Where there is no quota, it is `max` or -1.
fn pair(quota: &str, period: &str) -> Option<Quota> {
    let number = |text: &str| text.trim_end().parse().ok();
    Quota::new(number(quota)?, number(period)?)
}

/// The tightest quota that the process has, with the system's files under `root`.
pub(super) fn quota(root: &Path) -> Option<Quota> {
    let read = |file| fs::read(root.join(file)).ok();
    quota_of(&read("proc/self/cgroup")?, &read("proc/self/mountinfo")?, root)
}

fn quota_of(groups: &[u8], mounts: &[u8], root: &Path) -> Option<Quota> {
    // Names need not be UTF-8; such a group is not found, and no limit then.
    let (groups, mounts) = (String::from_utf8_lossy(groups), String::from_utf8_lossy(mounts));
    let quotas = groups.lines().filter_map(group).filter_map(|(version, group)| {
        let mount = mounts.lines().filter_map(mount).find_map(|mount| mount.place(version, group));
        let (mount, below) = mount?;
        tightest(version, &root.join(mount.strip_prefix("/").ok()?), &below)
    });
    quotas.reduce(Quota::min)
}

/// The tightest quota on the way from the group `below` the folder of a mount up to that folder.
fn tightest(version: Version, mount: &Path, below: &Path) -> Option<Quota> {
    let groups = below.ancestors().map(|group| mount.join(group));
    groups.filter_map(|folder| version.read(&folder)).reduce(Quota::min)
}

/// A line `number:controllers:path` of a tree that may have CPU quotas.
fn group(line: &str) -> Option<(Version, &Path)> {
    let mut fields = line.splitn(3, ':').skip(1);
    let version = match fields.next()? {
        "" => Version::Two,
        controllers if controllers.split(',').any(|name| name == "cpu") => Version::One,
        _ => return None,
    };
    Some((version, Path::new(fields.next()?)))
}

/// Where a tree of groups is mounted.
struct Mount {
    version: Version,
    /// The group that is the top of what is mounted.
    top: PathBuf,
    place: PathBuf,
}

/// A line `id parent device top place options [tags] - type source options`.
fn mount(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut back = back.split(' ');
    let version = match back.next()? {
        "cgroup2" => Version::Two,
        "cgroup" if back.nth(1)?.split(',').any(|name| name == "cpu") => Version::One,
        _ => return None,
    };
    let mut front = front.split(' ').skip(3);
    let mut path = || front.next().map(|field| PathBuf::from(unescaped(field)));
    Some(Mount { version, top: path()?, place: path()? })
}

impl Mount {
    /// Where it is, and the path of `group` below it, if that can be seen there.
    fn place(self, version: Version, group: &Path) -> Option<(PathBuf, PathBuf)> {
        let below = group.strip_prefix(&self.top).ok()?;
        // A group outside of what the process sees begins with "..".
        let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        (self.version == version && plain).then(|| (self.place, below.to_path_buf()))
    }
}

/// The kernel writes blanks and backslashes in paths as `\040` and the like.
fn unescaped(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                text.push(char::from(code));
                text.push_str(&part[3..]);
            }
            None => {
                text.push('\\');
                text.push_str(part);
            }
        }
    }
    text
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tempfile::TempDir;

    /// Files under a folder that stands for the root.
    fn files(list: &[(&str, &[u8])]) -> TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, content) in list {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("not the root")).expect("a folder");
            fs::write(path, content).expect("a file");
        }
        root
    }

    const MOUNTS: &[u8] = b"\
22 27 0:21 / /proc rw,relatime - proc proc rw
31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
";

    fn version_2(list: &[(&str, &str)]) -> Option<f64> {
        let own: &[u8] = b"0::/user.slice/job.scope\n";
        let mut all = vec![("proc/self/cgroup", own), ("proc/self/mountinfo", MOUNTS)];
        all.extend(list.iter().map(|(path, text)| (*path, text.as_bytes())));
        quota(files(&all).path()).map(Quota::cpus)
    }

    #[test]
    fn the_tightest_quota_on_the_way_up_counts() {
        let (top, slice) = ("sys/fs/cgroup/cpu.max", "sys/fs/cgroup/user.slice/cpu.max");
        let job = "sys/fs/cgroup/user.slice/job.scope/cpu.max";
        let other = "sys/fs/cgroup/other/cpu.max";
        assert_eq!(version_2(&[(job, "150000 100000\n"), (other, "1000 100000\n")]), Some(1.5));
        assert_eq!(version_2(&[(job, "max 100000\n"), (slice, "20000 10000\n")]), Some(2.0));
        assert_eq!(version_2(&[(job, "300000 100000"), (top, "50000 100000")]), Some(0.5));
        assert_eq!(version_2(&[(job, "max 100000\n"), (top, "max 100000\n")]), None);
        assert_eq!(version_2(&[]), None);
    }

    #[test]
    fn version_1_is_found_where_it_is_mounted() {
        let mounts: &[u8] = b"\
40 31 0:37 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
41 31 0:38 /docker/7 /a\\040tree rw,nosuid master:4 - cgroup cgroup rw,cpu,cpuacct
42 31 0:39 /docker/7 /cpuset rw - cgroup cgroup rw,cpuset
";
        let root = files(&[
            ("proc/self/cgroup", b"9:cpuset:/docker/7\n4:cpu,cpuacct:/docker/7/job\n0::/\n"),
            ("proc/self/mountinfo", mounts),
            ("a tree/cpu.cfs_quota_us", b"250000\n"),
            ("a tree/cpu.cfs_period_us", b"100000\n"),
            ("a tree/job/cpu.cfs_quota_us", b"-1\n"),
            ("a tree/job/cpu.cfs_period_us", b"100000\n"),
            ("cpuset/cpu.cfs_quota_us", b"1000\n"),
            ("cpuset/cpu.cfs_period_us", b"100000\n"),
        ]);
        let found = quota(root.path()).expect("a quota");
        assert_eq!((found.cpus(), found.workers()), (2.5, 3));
        // The other tree has one, too, and it is tighter.
        fs::create_dir_all(root.path().join("sys/fs/cgroup/unified")).expect("a folder");
        let file = root.path().join("sys/fs/cgroup/unified/cpu.max");
        fs::write(file, "1 100000").expect("a file");
        assert_eq!(quota(root.path()).map(Quota::workers), Some(1));
    }

    #[test]
    fn groups_that_cannot_be_seen_are_no_limit() {
        for own in ["0::/../elsewhere\n", "0::relative\n", "7:cpu:/user.slice\n", "0::\n", "::\n"] {
            let root = files(&[
                ("proc/self/cgroup", own.as_bytes()),
                ("proc/self/mountinfo", MOUNTS),
                ("sys/fs/cgroup/cpu.max", b"1000 100000"),
                ("sys/fs/elsewhere/cpu.max", b"1000 100000"),
            ]);
            assert_eq!(quota(root.path()), None, "{own:?}");
        }
    }

    /// Text that is nearly what the kernel writes.
    fn nearly() -> impl Strategy<Value = String> {
        const PARTS: [&str; 25] = [
            "0",
            "-1",
            "max",
            "100000",
            "18446744073709551615",
            "18446744073709551616",
            " ",
            "\n",
            ":",
            "::",
            "/",
            "/..",
            " - ",
            "cgroup2",
            "cgroup",
            "cpu",
            ",",
            "\\",
            "\\040",
            "\\7",
            "é",
            "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "0::/\n",
            "1e5",
            "+5",
        ];
        prop::collection::vec(prop::sample::select(&PARTS[..]), 0..12).prop_map(|v| v.concat())
    }

    proptest! {
        #[test]
        fn whatever_the_files_hold_nothing_panics(
            own in nearly(),
            mounts in nearly(),
            raw in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            for (own, mounts) in [
                (own.as_bytes(), mounts.as_bytes()),
                (own.as_bytes(), &raw),
                (&raw, mounts.as_bytes()),
            ] {
                prop_assert_eq!(quota_of(own, mounts, Path::new("/dev/null")), None);
            }
        }

        #[test]
        fn what_is_not_two_numbers_is_no_limit(quota in nearly(), period in nearly()) {
            let number = |text: &str| text.trim_end().parse::<u64>().unwrap_or(0);
            let (one, other) = (number(&quota), number(&period));
            let expected = (one > 0 && other > 0).then(|| one as f64 / other as f64);
            prop_assert_eq!(pair(&quota, &period).map(Quota::cpus), expected);
        }
    }
}
