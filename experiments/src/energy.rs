//! Energy from the processor's own meters (RAPL), as the kernel shows them under
//! `/sys/class/powercap`.
//!
//! A meter counts microjoules and starts again at 0 beyond its range, within minutes on a busy
//! server; [`EnergyMeter::sample`] must therefore be called now and then during a long run.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::reading::Reading;

/// Where the kernel shows the meters.
pub const POWERCAP: &str = "/sys/class/powercap";

/// Joules of a run, per domain and in total.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnergyReport {
    /// The sum over all processor packages, in joules.
    pub packages: Reading<f64>,
    /// Each domain (`package-0`, `package-0/dram`, ...) in joules.
    pub domains: Vec<(String, Reading<f64>)>,
}

/// The meters of this machine, read since a start.
#[derive(Debug)]
pub struct EnergyMeter {
    domains: Result<Vec<Domain>, String>,
}

#[derive(Debug)]
struct Domain {
    name: String,
    is_package: bool,
    counter: PathBuf,
    /// The largest value of the counter, in microjoules.
    range: u64,
    last: u64,
    total: u64,
    failed: Option<String>,
}

impl EnergyMeter {
    /// Starts to measure with the meters of this machine.
    pub fn start() -> Self {
        Self::start_at(Path::new(POWERCAP))
    }

    /// Starts to measure with the meters shown under `root`.
    ///
    /// ```
    /// use millrace_experiments::energy::EnergyMeter;
    ///
    /// let nowhere = EnergyMeter::start_at("/nonexistent".as_ref()).stop();
    /// assert!(nowhere.packages.reason().unwrap().contains("No such file or directory"));
    /// ```
    pub fn start_at(root: &Path) -> Self {
        EnergyMeter { domains: find_domains(root) }
    }

    /// Reads every meter, so that none passes its range twice between two readings.
    pub fn sample(&mut self) {
        for domain in self.domains.iter_mut().flatten() {
            match read_number(&domain.counter) {
                Ok(now) => {
                    domain.total += spent(domain.last, now, domain.range);
                    domain.last = now;
                }
                Err(reason) => {
                    domain.failed.get_or_insert(reason);
                }
            }
        }
    }

    /// Reads every meter a last time and reports what was spent since the start.
    pub fn stop(mut self) -> EnergyReport {
        self.sample();
        let domains = match self.domains {
            Ok(domains) => domains,
            Err(reason) => {
                return EnergyReport {
                    packages: Reading::unavailable(reason),
                    domains: Vec::new(),
                };
            }
        };
        let mut packages = Reading::Measured { value: 0.0 };
        for domain in domains.iter().filter(|domain| domain.is_package) {
            packages = match (&packages, domain.joules()) {
                (Reading::Measured { value }, Reading::Measured { value: more }) => {
                    Reading::Measured { value: value + more }
                }
                (Reading::Measured { .. }, missing) => missing,
                _ => packages,
            };
        }
        if !domains.iter().any(|domain| domain.is_package) {
            packages = Reading::unavailable("no meter of a processor package");
        }
        let domains =
            domains.into_iter().map(|domain| (domain.name.clone(), domain.joules())).collect();
        EnergyReport { packages, domains }
    }
}

impl Domain {
    fn joules(&self) -> Reading<f64> {
        match &self.failed {
            Some(reason) => Reading::unavailable(reason),
            None => Reading::Measured { value: self.total as f64 / 1e6 },
        }
    }
}

/// Microjoules from one reading to the next, with at most one return to 0 in between.
fn spent(before: u64, now: u64, range: u64) -> u64 {
    if now >= before { now - before } else { range.saturating_sub(before).saturating_add(now) }
}

/// Every `intel-rapl` domain under `root`. The kernel lists the parts of a package
/// (`intel-rapl:0:1`) beside it (`intel-rapl:0`).
fn find_domains(root: &Path) -> Result<Vec<Domain>, String> {
    let entries = fs::read_dir(root).map_err(|error| format!("{}: {error}", root.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("intel-rapl:")
        })
        .collect();
    if paths.is_empty() {
        return Err(format!("{}: no intel-rapl meter", root.display()));
    }
    paths.sort();
    Ok(paths.iter().map(|path| open_domain(path)).collect())
}

fn open_domain(path: &Path) -> Domain {
    let own_name = |path: &Path| match fs::read_to_string(path.join("name")) {
        Ok(name) => name.trim().to_owned(),
        Err(_) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let directory = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut name = own_name(path);
    let is_part = directory.matches(':').count() > 1;
    if is_part && let Some((parent, _)) = directory.rsplit_once(':') {
        name = format!("{}/{name}", own_name(&path.with_file_name(parent)));
    }
    let counter = path.join("energy_uj");
    let first = read_number(&counter);
    let range = read_number(&path.join("max_energy_range_uj"));
    let failed = first.as_ref().err().or(range.as_ref().err()).cloned();
    Domain {
        // Another top-level domain, `psys`, contains the packages and must not be added to them.
        is_package: !is_part && name.starts_with("package"),
        name,
        counter,
        range: range.unwrap_or(0),
        last: first.unwrap_or(0),
        total: 0,
        failed,
    }
}

fn read_number(path: &Path) -> Result<u64, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let text = text.trim();
    text.parse().map_err(|_| format!("{}: `{text}` is not a number", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            Tree(tempfile::tempdir().expect("temporary directory"))
        }
        fn domain(&self, directory: &str, name: &str, energy: &str, range: &str) {
            let path = self.0.path().join(directory);
            fs::create_dir_all(&path).expect("new directory");
            for (file, text) in [("name", name), ("max_energy_range_uj", range)] {
                fs::write(path.join(file), text).expect("new file");
            }
            self.set(directory, energy);
        }
        fn set(&self, directory: &str, energy: &str) {
            fs::write(self.0.path().join(directory).join("energy_uj"), energy).expect("a file");
        }
        fn meter(&self) -> EnergyMeter {
            EnergyMeter::start_at(self.0.path())
        }
    }

    #[test]
    fn adds_packages_and_lists_their_parts() {
        let tree = Tree::new();
        tree.domain("intel-rapl:0", "package-0\n", "1000000\n", "262143328850\n");
        tree.domain("intel-rapl:0:0", "dram\n", "10\n", "65712999613\n");
        tree.domain("intel-rapl:1", "package-1\n", "5\n", "262143328850\n");
        tree.domain("intel-rapl:2", "psys\n", "5\n", "262143328850\n");
        tree.domain("dtpm", "other\n", "5\n", "5\n");
        let meter = tree.meter();
        tree.set("intel-rapl:0", "3000000");
        tree.set("intel-rapl:0:0", "500010");
        tree.set("intel-rapl:1", "1000005");
        tree.set("intel-rapl:2", "9000005");
        let report = meter.stop();
        assert_eq!(report.packages, Reading::Measured { value: 3.0 });
        let names: Vec<&str> = report.domains.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["package-0", "package-0/dram", "package-1", "psys"]);
        assert_eq!(report.domains[1].1, Reading::Measured { value: 0.5 });
    }

    #[test]
    fn a_meter_that_passes_its_range_goes_on() {
        let tree = Tree::new();
        tree.domain("intel-rapl:0", "package-0", "900000", "1000000");
        let mut meter = tree.meter();
        for energy in ["200000", "950000", "100000"] {
            tree.set("intel-rapl:0", energy);
            meter.sample();
        }
        let packages = meter.stop().packages;
        assert_eq!(packages, Reading::Measured { value: 0.3 + 0.75 + 0.15 });
    }

    #[test]
    fn what_cannot_be_read_is_a_reason() {
        let tree = Tree::new();
        assert!(tree.meter().stop().packages.reason().expect("empty").contains("no intel-rapl"));

        tree.domain("intel-rapl:0", "package-0", "many", "1000000");
        let reason = tree.meter().stop().packages;
        assert!(reason.reason().expect("not a number").contains("`many` is not a number"));

        tree.set("intel-rapl:0", "5");
        let meter = tree.meter();
        fs::remove_file(tree.0.path().join("intel-rapl:0/energy_uj")).expect("there before");
        assert!(meter.stop().packages.reason().expect("gone").contains("No such file"));
    }

    #[test]
    fn a_denied_meter_says_so() {
        let tree = Tree::new();
        tree.domain("intel-rapl:0", "package-0", "5", "1000000");
        let file = tree.0.path().join("intel-rapl:0/energy_uj");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).expect("own file");
        let report = tree.meter().stop();
        // A privileged user reads every file; then there is nothing to deny.
        match fs::read(&file) {
            Ok(_) => assert_eq!(report.packages, Reading::Measured { value: 0.0 }),
            Err(_) => {
                let reason = report.packages.reason().expect("denied").to_owned();
                assert!(reason.contains("Permission denied"), "{reason}");
            }
        }
    }
}
