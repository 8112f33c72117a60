//! What the run ran on, and the limits and marks that the system keeps for this process.

pub mod state;

use std::fs;

use millrace_runtime::topology::Limits;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

use crate::reading::Reading;

/// The machine, as a reader of a report needs to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Processors that this process may keep busy.
    pub cores: usize,
    /// Memory in bytes, where the system says it.
    pub memory: Option<u64>,
    /// Operating system and the release of its kernel.
    pub kernel: String,
    /// Whether the processor says that it is a virtual one.
    pub is_virtual: bool,
    /// Version of this program.
    pub version: String,
}

impl Machine {
    /// Describes the machine that this process runs on; what is not known is said to be.
    pub fn describe() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            info.lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(key, _)| key.trim() == name)
                .map(|(_, value)| value.trim())
        };
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            processor: field("model name").unwrap_or("unknown processor").to_owned(),
            cores: available_cores(),
            memory: fs::read_to_string("/proc/meminfo")
                .ok()
                .and_then(|text| kilobytes(&text, "MemTotal")),
            kernel: format!("{} {}", std::env::consts::OS, release.trim()).trim_end().to_owned(),
            is_virtual: field("flags")
                .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// One line for tables and titles.
    pub fn line(&self) -> String {
        let plural = if self.cores == 1 { "" } else { "s" };
        let mut line = format!("{}, {} core{plural}", self.processor, self.cores);
        if let Some(bytes) = self.memory {
            line += &format!(", {:.1} GiB", bytes as f64 / f64::from(1 << 30));
        }
        if self.is_virtual {
            line += ", virtual machine";
        }
        format!("{line}, {}, millrace {}", self.kernel, self.version)
    }
}

/// Processors that this process may keep busy, by its affinity mask and CPU quota; at least 1.
pub fn available_cores() -> usize {
    Limits::of_process().workers()
}

/// The most memory that this process has had resident so far, in bytes.
///
/// It belongs to the process, not to a run: a comparison gives every run its own process.
pub fn peak_resident() -> Reading<u64> {
    const STATUS: &str = "/proc/self/status";
    match fs::read_to_string(STATUS) {
        Ok(text) => match kilobytes(&text, "VmHWM") {
            Some(value) => Reading::Measured { value },
            None => Reading::unavailable(format!("{STATUS} has no VmHWM")),
        },
        Err(error) => Reading::unavailable(format!("{STATUS}: {error}")),
    }
}

/// Lets [`peak_resident`] begin anew from what is resident now, where the system can do that.
pub(crate) fn reset_peak_resident() {
    // Where it cannot, the peak stays what it was, which is never too little.
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Memory of this process that is resident now, in bytes, where the system says it.
pub(crate) fn resident_bytes() -> Option<u64> {
    kilobytes(&fs::read_to_string("/proc/self/status").ok()?, "VmRSS")
}

/// The value of `name:  123 kB` in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Raises the soft limit of open files to at least `needed` where the hard limit allows it, and
/// returns the limit that then holds.
pub(crate) fn raise_open_files(needed: u64) -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= needed {
        return current;
    }
    let raised = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
    limit.current = Some(raised);
    match setrlimit(Resource::Nofile, limit) {
        Ok(()) => raised,
        Err(_) => current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sizes_and_refuses_other_lines() {
        let text = "Name:\tmillrace\nVmHWM:\t    1234 kB\nVmRSS:\tmany kB\n";
        assert_eq!(kilobytes(text, "VmHWM"), Some(1234 * 1024));
        assert_eq!(kilobytes(text, "VmRSS"), None);
        assert_eq!(kilobytes(text, "VmH"), None);
        assert_eq!(kilobytes(text, "Name"), None);
    }

    #[test]
    fn this_process_has_had_memory() {
        let peak = peak_resident();
        assert!(peak.value().is_none_or(|bytes| bytes > 64 << 10), "{peak}");
    }

    #[test]
    fn the_limit_of_open_files_is_never_lowered() {
        let before = raise_open_files(0);
        assert!(raise_open_files(before + 1) >= before);
    }

    #[test]
    fn the_line_names_processor_and_cores() {
        let machine = Machine { cores: 1, processor: "P".into(), ..Machine::describe() };
        assert!(machine.line().starts_with("P, 1 core,"), "{}", machine.line());
    }
}
