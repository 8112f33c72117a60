//! Options of `millrace compare`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches};

use super::RunOptions;
use crate::experiment::Factor;

pub(super) const EXAMPLES: &str = "\
Examples:
  millrace                                  all eight combinations on the embedded images
  millrace --epochs 2 --workers 4           shorter runs, on four workers
  millrace --dataset ~/fashion --json       another data set; the runs as JSON
  millrace compare --samples 600 --out run  600 images, results in the folder `run`
  millrace compare sweep.toml --dry-run     the runs of an experiment, and how long they take
  millrace compare --out run --resume       go on where a comparison was stopped";

/// Options of `compare` that stand before its file.
#[derive(Clone, Debug, Args)]
pub struct CompareCommand {
    /// An experiment: which levels of which factors are run how often (TOML)
    /// [default: every batch arena with every loader, 5 times]
    pub file: Option<PathBuf>,
    /// The other options.
    #[command(flatten)]
    pub options: CompareOptions,
}

/// Options of `compare`.
#[derive(Clone, Debug, Args)]
pub struct CompareOptions {
    /// Runs of each combination that count, besides a warm-up [default: as in FILE, or 5]
    #[arg(long, value_name = "N")]
    pub repetitions: Option<u32>,
    /// Few repetitions and epochs: a look, not a measurement
    #[arg(long)]
    pub quick: bool,
    /// List the runs and how long they will take (measured by short ones), and run nothing else
    #[arg(long)]
    pub dry_run: bool,
    /// Run only what is missing in the folder of --out; without FILE, of its own experiment
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Which of the options of each run were typed. Read before these, which takes them away.
    #[command(flatten)]
    pub typed: Typed,
    /// Options of each run.
    #[command(flatten)]
    pub run: RunOptions,
}

/// Options of the runs that were typed, as opposed to those that have their default.
#[derive(Clone, Debug, Default)]
pub struct Typed(Vec<(String, OsString)>);

/// Options that are about the comparison, not about its runs.
const OF_COMPARISON: [&str; 4] = ["out", "quiet", "json", "trace"];

impl Typed {
    /// Names of the options that may be factors.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        let keys = self.0.iter().map(|(key, _)| key.as_str());
        keys.filter(|key| Factor::find(key).is_ok())
    }

    /// Them as words of a command line.
    pub fn words(&self) -> Vec<OsString> {
        self.0.iter().map(|(_, word)| word.clone()).collect()
    }
}

impl FromArgMatches for Typed {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut typed = Vec::new();
        for option in RunOptions::augment_args(clap::Command::new("run")).get_arguments() {
            let key = option.get_id().as_str();
            let is_typed = matches.value_source(key) == Some(ValueSource::CommandLine);
            if !is_typed || OF_COMPARISON.contains(&key) {
                continue;
            }
            let mut word = OsString::from(format!("--{}", key.replace('_', "-")));
            if option.get_action().takes_values() {
                // One word, so that a value that begins with `-` is no option.
                word.push("=");
                matches.get_raw(key).into_iter().flatten().for_each(|value| word.push(value));
            }
            typed.push((key.to_owned(), word));
        }
        Ok(Typed(typed))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Typed {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::options::Cli;

    #[test]
    fn only_what_was_typed_is_handed_on() {
        let words = "millrace --workers 2 --pin --seed=42 --json --out x --lr=-1 --quick";
        let cli = Cli::try_parse_from(words.split(' ')).expect("well formed");
        let typed = cli.compare.typed;
        assert_eq!(typed.words(), ["--workers=2", "--pin", "--seed=42", "--lr=-1"]);
        assert_eq!(typed.keys().collect::<Vec<_>>(), ["workers", "pin", "seed", "lr"]);
    }
}
