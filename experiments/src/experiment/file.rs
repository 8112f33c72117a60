//! The file of an experiment.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::factor::{FACTORS, Factor, STANDARD};
use crate::failure::Failure;

/// Runs of each combination that count, where nothing is said.
const REPETITIONS: u32 = 5;
/// The same for a quick look.
const QUICK_REPETITIONS: u32 = 2;
/// Epochs of a quick look.
const QUICK_EPOCHS: &str = "2";
/// More repetitions than this are a mistake, not a wish.
const MAX_REPETITIONS: u32 = 1000;

/// What is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// What it asks, in a line.
    pub title: String,
    /// Runs of each combination of levels that count, at least 1.
    pub repetitions: u32,
    /// Decides the order of the runs.
    pub seed: u64,
    /// Factors in the order of [`FACTORS`], each with its levels: at least one, all different.
    factors: Vec<(&'static Factor, Vec<String>)>,
    /// For some factors the level that others are held against.
    base: BTreeMap<&'static str, String>,
}

/// The document.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    title: Option<String>,
    repetitions: Option<u32>,
    seed: Option<u64>,
    #[serde(default)]
    factors: BTreeMap<String, Levels>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    base: BTreeMap<String, Level>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "wanted a level (text, a number, true or false) or a list of them")]
enum Levels {
    Many(Vec<Level>),
    One(Level),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "wanted text, a number, true or false")]
enum Level {
    Switch(bool),
    Whole(i64),
    Number(f64),
    Text(String),
}

impl Level {
    fn text(&self) -> String {
        match self {
            Level::Switch(level) => level.to_string(),
            Level::Whole(level) => level.to_string(),
            Level::Number(level) => level.to_string(),
            Level::Text(level) => level.clone(),
        }
    }
}

impl Default for Experiment {
    /// Every batch arena with every batch loader.
    fn default() -> Self {
        let find = |key| Factor::find(key).expect("a factor");
        let levels = |levels: &[&str]| levels.iter().map(|&level| level.to_owned()).collect();
        Experiment {
            title: "Batch arenas and loaders compared".to_owned(),
            repetitions: REPETITIONS,
            seed: 1,
            factors: STANDARD.iter().map(|(key, all)| (find(key), levels(all))).collect(),
            base: BTreeMap::new(),
        }
    }
}

impl Experiment {
    /// Reads and checks the file at `path`. What it leaves out is as in [`Experiment::default`].
    ///
    /// # Errors
    /// A failure that names the file, the factor and what would be valid.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error))?;
        Self::parse(&text).map_err(|reason| {
            Failure::usage(format_args!("experiment {}: {reason}", path.display()))
        })
    }

    /// Reads and checks the text of a file.
    ///
    /// ```
    /// use millrace_experiments::experiment::Experiment;
    ///
    /// let experiment = Experiment::parse("[factors]\nloader = ['naive', 'advanced']").unwrap();
    /// assert_eq!(experiment.factors().count(), 2); // and both arenas
    /// let reason = Experiment::parse("[factors]\nlodaer = 'naive'").unwrap_err();
    /// assert!(reason.contains("did you mean `loader`?"));
    /// ```
    ///
    /// # Errors
    /// What is wrong, where, and what would be valid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let document: Document = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut experiment = Experiment::default();
        experiment.title = document.title.unwrap_or(experiment.title);
        experiment.seed = document.seed.unwrap_or(experiment.seed);
        experiment.repeat(document.repetitions.unwrap_or(experiment.repetitions))?;
        for (key, levels) in document.factors {
            let levels = match levels {
                Levels::Many(levels) => levels.iter().map(Level::text).collect(),
                Levels::One(level) => vec![level.text()],
            };
            experiment.set(Factor::find(&key)?, levels)?;
        }
        for (key, level) in document.base {
            let factor = Factor::find(&key)?;
            let level = level.text();
            let levels = experiment.levels(factor);
            if !levels.contains(&level) {
                return Err(format!(
                    "base line: {} has no level `{level}` in this experiment, only {}",
                    factor.key,
                    levels.join(", ")
                ));
            }
            experiment.base.insert(factor.key, level);
        }
        Ok(experiment)
    }

    /// The text of a file that says all of it.
    pub fn text(&self) -> String {
        let levels =
            |levels: &[String]| Levels::Many(levels.iter().cloned().map(Level::Text).collect());
        let document = Document {
            title: Some(self.title.clone()),
            repetitions: Some(self.repetitions),
            seed: Some(self.seed),
            factors: self.factors().map(|(f, all)| (f.key.to_owned(), levels(all))).collect(),
            base: self
                .base
                .iter()
                .map(|(key, level)| ((*key).to_owned(), Level::Text(level.clone())))
                .collect(),
        };
        toml::to_string(&document).expect("text and numbers only")
    }

    /// Sets the number of runs of each combination that count.
    ///
    /// # Errors
    /// When it is 0 or more than 1000.
    pub fn repeat(&mut self, repetitions: u32) -> Result<(), String> {
        if !(1..=MAX_REPETITIONS).contains(&repetitions) {
            return Err(format!("repetitions {repetitions}: wanted 1 to {MAX_REPETITIONS}"));
        }
        self.repetitions = repetitions;
        Ok(())
    }

    /// Makes a quick look of it: few repetitions, and with `fewer_epochs` few epochs, where it
    /// does not say how many.
    pub fn quicken(&mut self, fewer_epochs: bool) {
        self.repetitions = self.repetitions.min(QUICK_REPETITIONS);
        let epochs = Factor::find("epochs").expect("a factor");
        if fewer_epochs && self.levels(epochs).is_empty() {
            self.insert(epochs, vec![QUICK_EPOCHS.to_owned()]);
        }
    }

    /// Leaves `key` to the command line, which says it for all runs.
    ///
    /// # Errors
    /// When the experiment varies it.
    pub fn give_up(&mut self, key: &str) -> Result<(), String> {
        let mut varied = self.factors().filter(|(_, levels)| levels.len() > 1);
        if let Some((factor, levels)) = varied.find(|(factor, _)| factor.key == key) {
            return Err(format!(
                "{}: the experiment varies {} ({}); leave one of them away",
                factor.option(),
                factor.words(),
                levels.join(", ")
            ));
        }
        drop(varied);
        self.factors.retain(|(factor, _)| factor.key != key);
        self.base.remove(key);
        Ok(())
    }

    /// Each factor with its levels.
    pub fn factors(&self) -> impl Iterator<Item = (&'static Factor, &[String])> {
        self.factors.iter().map(|(factor, levels)| (*factor, levels.as_slice()))
    }

    /// The level of `factor` that others are held against.
    pub fn base_level(&self, factor: &Factor) -> Option<&str> {
        let first = || self.levels(factor).first();
        self.base.get(factor.key).or_else(first).map(String::as_str)
    }

    fn levels(&self, factor: &Factor) -> &[String] {
        let found = self.factors.iter().find(|(known, _)| *known == factor);
        found.map_or(&[], |(_, levels)| levels)
    }

    fn set(&mut self, factor: &'static Factor, levels: Vec<String>) -> Result<(), String> {
        if levels.is_empty() {
            return Err(format!("factor {}: at least one level is needed", factor.key));
        }
        for (index, level) in levels.iter().enumerate() {
            factor.check(level).map_err(|reason| format!("factor {}: {reason}", factor.key))?;
            if levels[..index].contains(level) {
                return Err(format!("factor {}: `{level}` is there twice", factor.key));
            }
        }
        self.insert(factor, levels);
        Ok(())
    }

    fn insert(&mut self, factor: &'static Factor, levels: Vec<String>) {
        self.factors.retain(|(known, _)| *known != factor);
        self.factors.push((factor, levels));
        let place = |factor: &Factor| FACTORS.iter().position(|known| known == factor);
        self.factors.sort_by_key(|(factor, _)| place(factor));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_the_standard() {
        assert_eq!(Experiment::parse(""), Ok(Experiment::default()));
        let given =
            Experiment::parse("repetitions = 3\n[factors]\nbatch-size = [1, 16]").expect("valid");
        let keys: Vec<&str> = given.factors().map(|(factor, _)| factor.key).collect();
        assert_eq!(keys, ["arena", "loader", "batch_size"]);
        assert_eq!(given.repetitions, 3);
        let arena = Factor::find("arena").expect("a factor");
        assert_eq!(given.base_level(arena), Some("single"));
    }

    #[test]
    fn an_experiment_survives_its_file() {
        let text = "title = 'x \"y\"'\nseed = 9\n[factors]\nlr = [0.5, 1]\npin = [true, false]\n\
                    dataset = 'a b'\n[base]\npin = false\nloader = 'advanced'";
        let experiment = Experiment::parse(text).expect("valid");
        assert_eq!(Experiment::parse(&experiment.text()), Ok(experiment.clone()));
        let pin = Factor::find("pin").expect("a factor");
        assert_eq!(experiment.base_level(pin), Some("false"));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for (text, wanted) in [
            ("[factors]\nlodaer = 'naive'", "did you mean `loader`?"),
            ("[factors]\nloader = ['naive', 'advance']", "'advanced'"),
            ("[factors]\nloader = ['naive', 'naive']", "twice"),
            ("[factors]\nloader = []", "at least one level"),
            ("[factors]\nworkers = { a = 1 }", "wanted a level"),
            ("[base]\narena = 'ring(3)'", "only single, double"),
            ("[base]\nworkers = 2", "no level `2`"),
            ("[base]\nwork = 2", "did you mean `workers`?"),
            ("repetitions = 0", "1 to 1000"),
            ("repetitons = 5", "`repetitons`"),
            ("[factors", "line 1"),
        ] {
            let reason = Experiment::parse(text).expect_err(text);
            assert!(reason.contains(wanted), "{text}: {reason}");
        }
    }

    #[test]
    fn the_command_line_may_fix_what_is_not_varied() {
        let mut experiment =
            Experiment::parse("[factors]\nepochs = 3\nworkers = [1, 2]").expect("valid");
        assert_eq!(experiment.give_up("epochs"), Ok(()));
        assert!(experiment.factors().all(|(factor, _)| factor.key != "epochs"));
        let reason = experiment.give_up("workers").expect_err("varied");
        assert!(reason.contains("--workers") && reason.contains("1, 2"), "{reason}");
        assert_eq!(experiment.give_up("seed"), Ok(()));
    }

    #[test]
    fn a_quick_look_keeps_what_is_said() {
        let epochs = |text| {
            let mut experiment = Experiment::parse(text).expect("valid");
            experiment.quicken(true);
            assert!(experiment.repetitions <= 2);
            experiment.levels(Factor::find("epochs").expect("a factor")).to_vec()
        };
        assert_eq!(epochs(""), ["2"]);
        assert_eq!(epochs("repetitions = 1\n[factors]\nepochs = [7, 9]"), ["7", "9"]);
    }
}
