//! The factors of an experiment: options of `train` that may have several levels.

use std::ffi::OsString;

use crate::failure::Failure;
use crate::options::{self, Cli};

/// What a factor is to a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Its levels are held against each other.
    Compared,
    /// Levels are compared within each level of it, never across.
    Condition,
}

/// An option of `train` that an experiment may vary.
#[derive(Debug, PartialEq, Eq)]
pub struct Factor {
    /// Its name in an experiment: the option's, with `_` for `-`.
    pub key: &'static str,
    /// What it is to a comparison.
    pub role: Role,
    /// Whether the option is a switch, whose levels are `true` and `false`.
    is_switch: bool,
}

const fn compared(key: &'static str) -> Factor {
    Factor { key, role: Role::Compared, is_switch: false }
}

const fn condition(key: &'static str) -> Factor {
    Factor { key, role: Role::Condition, is_switch: false }
}

const fn switch(key: &'static str, role: Role) -> Factor {
    Factor { key, role, is_switch: true }
}

/// Every factor, in the order in which names of runs have them. An option of `train` becomes a
/// factor by a line here.
pub const FACTORS: &[Factor] = &[
    compared("arena"),
    compared("loader"),
    compared("scheduler"),
    switch("pin", Role::Compared),
    condition("dataset"),
    condition("batch_size"),
    condition("workers"),
    condition("shards"),
    condition("samples"),
    condition("epochs"),
    condition("window"),
    condition("memory_window"),
    condition("lr"),
    switch("shuffle", Role::Condition),
    condition("seed"),
];

/// Levels of these factors that `train` takes where nothing is said.
pub(super) const STANDARD: [(&str, &[&str]); 2] =
    [("arena", &["single", "double"]), ("loader", &["naive", "prefetch", "double", "advanced"])];

impl Factor {
    /// The factor called `key`, in which `-` is as good as `_`.
    ///
    /// # Errors
    /// With the nearest name, where there is none of this one.
    pub fn find(key: &str) -> Result<&'static Factor, String> {
        let name = key.replace('-', "_");
        FACTORS.iter().find(|factor| factor.key == name).ok_or_else(|| {
            let names: Vec<&str> = FACTORS.iter().map(|factor| factor.key).collect();
            let near = |name: &&&str| strsim::damerau_levenshtein(key, name);
            let nearest = names.iter().min_by_key(near).copied().unwrap_or_default();
            format!(
                "unknown factor `{key}`: did you mean `{nearest}`? There are {}",
                names.join(", ")
            )
        })
    }

    /// Its name in sentences: `batch size`.
    pub fn words(&self) -> String {
        self.key.replace('_', " ")
    }

    /// The option of `train`: `--batch-size`.
    pub fn option(&self) -> String {
        format!("--{}", self.key.replace('_', "-"))
    }

    /// The words of a command line that choose `level`.
    pub fn arguments(&self, level: &str) -> Vec<OsString> {
        match (self.is_switch, level) {
            (true, "true") => vec![self.option().into()],
            (true, _) => Vec::new(),
            // One word, so that a level that begins with `-` is no option.
            (false, level) => vec![format!("{}={level}", self.option()).into()],
        }
    }

    /// Checks that `train` understands `level`.
    ///
    /// # Errors
    /// In the words of the command line, which know the nearest name.
    pub fn check(&self, level: &str) -> Result<(), String> {
        if self.is_switch && !["true", "false"].contains(&level) {
            return Err(format!("`{level}`: wanted true or false"));
        }
        let words = ["millrace", "train"].map(OsString::from);
        let parsed: Result<Option<Cli>, Failure> =
            options::parse(words.into_iter().chain(self.arguments(level)));
        parsed.map(|_| ()).map_err(|failure| failure.to_string())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_factor_is_an_option_of_train() {
        let cli = Cli::command();
        let train = cli.find_subcommand("train").expect("a subcommand");
        for factor in FACTORS {
            let option = train.get_arguments().find(|option| option.get_id() == factor.key);
            let option = option.unwrap_or_else(|| panic!("no option {}", factor.key));
            assert_eq!(option.get_action().takes_values(), !factor.is_switch, "{}", factor.key);
            assert_eq!(option.get_long().map(|name| format!("--{name}")), Some(factor.option()));
        }
    }

    #[test]
    fn the_nearest_name_is_offered() {
        for (wrong, near) in
            [("batchsize", "batch_size"), ("worker", "workers"), ("lodaer", "loader")]
        {
            let message = Factor::find(wrong).expect_err(wrong);
            assert!(message.contains(&format!("did you mean `{near}`?")), "{message}");
        }
        assert_eq!(Factor::find("batch-size").map(|factor| factor.key), Ok("batch_size"));
    }

    #[test]
    fn levels_are_what_train_takes() {
        let check = |key, level| Factor::find(key).expect("a factor").check(level);
        assert_eq!(check("arena", "ring(3)"), Ok(()));
        assert_eq!(check("pin", "true"), Ok(()));
        let message = check("loader", "advance").expect_err("no such loader");
        assert!(message.contains("'advanced'"), "{message}");
        assert!(check("epochs", "many").expect_err("no number").contains("many"));
        assert!(check("epochs", "-1").is_err());
        assert!(check("pin", "yes").expect_err("no truth").contains("true or false"));
    }
}
