//! Values of the options of everything that trains.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// Which worker runs which ready task next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulerChoice {
    /// A queue per worker, from which idle ones take
    #[default]
    WorkStealing,
    /// One queue, highest priority first
    Priority,
    /// One queue, oldest first
    Fifo,
    /// As a trace shows it (--placement)
    Static,
}

impl fmt::Display for SchedulerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SchedulerChoice::WorkStealing => "work-stealing",
            SchedulerChoice::Priority => "priority",
            SchedulerChoice::Fifo => "fifo",
            SchedulerChoice::Static => "static",
        })
    }
}

/// A number of bytes.
///
/// ```
/// use millrace_experiments::options::Bytes;
///
/// assert_eq!("64M".parse(), Ok(Bytes(64 << 20)));
/// assert_eq!("3 KiB".parse(), Ok(Bytes(3072)));
/// assert!("64MB".parse::<Bytes>().is_err()); // 10^6, or 2^20?
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        let shift = match text[digits.len()..].trim() {
            "" => Some(0),
            "K" | "k" | "KiB" => Some(10),
            "M" | "MiB" => Some(20),
            "G" | "GiB" => Some(30),
            _ => None,
        };
        let (Some(shift), Ok(number)) = (shift, digits.parse::<u64>()) else {
            return Err("wanted a number of bytes, for example 67108864, 64M or 2G".to_owned());
        };
        let bytes = number.checked_mul(1 << shift).filter(|bytes| usize::try_from(*bytes).is_ok());
        bytes.map(Bytes).ok_or_else(|| "more bytes than there are addresses".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_suffixes() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("5k", 5 << 10),
            ("5KiB", 5 << 10),
            ("5 M", 5 << 20),
            ("5MiB", 5 << 20),
            ("5G", 5 << 30),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in [
            "",
            "M",
            "-1",
            "1.5G",
            "5X",
            "5KB",
            "\u{b2}",
            "5\u{b2}",
            "18446744073709551616",
            "99999999999G",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
