//! The combinations of batch arena and batch loader that are compared.

use std::fmt;
use std::str::FromStr;

use clap::builder::PossibleValue;
use serde::{Deserialize, Serialize};

/// The deepest ring of batch arenas that can be asked for.
pub const MAX_RING: usize = 64;

/// How many batches' activations and gradients may be alive at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ArenaMode {
    /// One arena: the next batch waits for the memory of this one.
    Single,
    /// Two arenas, used in turn.
    Double,
    /// A ring of this many arenas, 1 to [`MAX_RING`].
    Ring(usize),
}

impl ArenaMode {
    /// Number of arenas.
    pub fn depth(self) -> usize {
        match self {
            ArenaMode::Single => 1,
            ArenaMode::Double => 2,
            ArenaMode::Ring(depth) => depth,
        }
    }
}

impl fmt::Display for ArenaMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArenaMode::Single => f.write_str("single"),
            ArenaMode::Double => f.write_str("double"),
            ArenaMode::Ring(depth) => write!(f, "ring({depth})"),
        }
    }
}

impl FromStr for ArenaMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "single" => return Ok(ArenaMode::Single),
            "double" => return Ok(ArenaMode::Double),
            _ => {}
        }
        let ring = text.strip_prefix("ring(").and_then(|rest| rest.strip_suffix(')'));
        match ring.map(str::parse) {
            Some(Ok(depth)) if (1..=MAX_RING).contains(&depth) => Ok(ArenaMode::Ring(depth)),
            Some(_) => Err(format!("the depth in `{text}` must be a number from 1 to {MAX_RING}")),
            None => Err(format!("unknown arena `{text}`: single, double or ring(N)")),
        }
    }
}

impl From<ArenaMode> for String {
    fn from(mode: ArenaMode) -> String {
        mode.to_string()
    }
}

impl TryFrom<String> for ArenaMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

/// Parses an arena mode on the command line; a misspelt one gets a suggestion, as with any
/// list of possible values.
#[derive(Clone, Copy, Debug)]
pub struct ArenaModeParser;

impl clap::builder::TypedValueParser for ArenaModeParser {
    type Value = ArenaMode;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<ArenaMode, clap::Error> {
        let text = value.to_string_lossy();
        if let Ok(mode) = text.parse() {
            return Ok(mode);
        }
        if text.starts_with("ring(") {
            let parser = clap::builder::StringValueParser::new()
                .try_map(|text: String| text.parse::<ArenaMode>());
            return parser.parse_ref(command, argument, value);
        }
        // Refuses the value, with the nearest known one as a tip.
        clap::builder::PossibleValuesParser::new(["single", "double", "ring(N)"])
            .try_map(|text| text.parse::<ArenaMode>())
            .parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(["single", "double", "ring(N)"].map(PossibleValue::new).into_iter()))
    }
}

/// When a batch is loaded and when its memory is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LoaderMode {
    /// Load when needed, wait before the memory is used again.
    Naive,
    /// Load one batch ahead; using memory again still waits.
    Prefetch,
    /// Two arenas in turn, nothing ahead.
    Double,
    /// Load ahead; wait only while every slot is in use.
    Advanced,
}

impl LoaderMode {
    /// Every loader, in the order of the tables.
    pub const ALL: [LoaderMode; 4] =
        [LoaderMode::Naive, LoaderMode::Prefetch, LoaderMode::Double, LoaderMode::Advanced];
}

impl fmt::Display for LoaderMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LoaderMode::Naive => "naive",
            LoaderMode::Prefetch => "prefetch",
            LoaderMode::Double => "double",
            LoaderMode::Advanced => "advanced",
        })
    }
}

/// One batch arena mode with one batch loader.
///
/// ```
/// use millrace_experiments::combination::Combination;
///
/// let names: Vec<String> = Combination::ALL.iter().map(Combination::to_string).collect();
/// assert_eq!(names[0], "single/naive");
/// assert_eq!(names[7], "double/advanced");
/// assert_eq!(Combination::ALL[7].file_name(), "double-advanced");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Combination {
    /// The batch arena.
    pub arena: ArenaMode,
    /// The batch loader.
    pub loader: LoaderMode,
}

impl Combination {
    /// The eight that are compared by default.
    pub const ALL: [Combination; 8] = {
        let mut all = [Combination::new(ArenaMode::Single, LoaderMode::Naive); 8];
        let mut index = 0;
        while index < 8 {
            all[index].loader = LoaderMode::ALL[index % 4];
            if index >= 4 {
                all[index].arena = ArenaMode::Double;
            }
            index += 1;
        }
        all
    };

    /// The combination of these two.
    pub const fn new(arena: ArenaMode, loader: LoaderMode) -> Self {
        Combination { arena, loader }
    }

    /// The name in file names: `double-advanced`, `ring-3-naive`.
    pub fn file_name(&self) -> String {
        match self.arena {
            ArenaMode::Ring(depth) => format!("ring-{depth}-{}", self.loader),
            arena => format!("{arena}-{}", self.loader),
        }
    }
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.arena, self.loader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arena_modes_read_what_they_write() {
        for mode in [ArenaMode::Single, ArenaMode::Double, ArenaMode::Ring(3)] {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert_eq!("ring(2)".parse::<ArenaMode>().map(ArenaMode::depth), Ok(2));
        for text in ["ring(0)", "ring(65)", "ring(n)", "ring(2", "ring", "Single", ""] {
            assert!(text.parse::<ArenaMode>().is_err(), "{text}");
        }
    }

    #[test]
    fn all_combinations_differ() {
        let mut names: Vec<String> = Combination::ALL.iter().map(Combination::file_name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 8);
    }
}
