//! The combinations of an experiment's levels, and the order of its runs.

use std::collections::BTreeMap;
use std::ffi::OsString;

use millrace_loader::sample_order;

use super::{Experiment, Factor, Role};
use crate::combination::Combination;
use crate::data::Data;
use crate::failure::Failure;
use crate::options::{self, Cli, Command, Settings, TrainOptions};

/// One combination of levels.
#[derive(Clone, Debug)]
pub struct Point {
    /// Batch arena and batch loader.
    pub combination: Combination,
    /// The parameters, checked against the data set.
    pub settings: Settings,
    /// Name of the data set.
    pub dataset: String,
    /// The level of each factor of the experiment.
    pub levels: BTreeMap<String, String>,
    /// Its name in tables: `double/advanced`, and the levels of other factors that are varied.
    pub label: String,
    /// The same for names of files.
    pub stem: String,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Index of its point.
    pub point: usize,
    /// Which run of this point it is: 0 is the warm-up, which is traced and does not count.
    pub repetition: u32,
}

/// Every point and every run of an experiment.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The combinations of levels, those of the last factor side by side.
    pub points: Vec<Point>,
    /// The runs in their order: repetition by repetition, each in an order of its own that
    /// the seed decides.
    pub runs: Vec<Planned>,
    /// For each point the one that it is held against; the base line itself has none.
    pub bases: Vec<Option<usize>>,
}

impl Plan {
    /// Makes the plan of `experiment`, with `fixed` as further words of the command line of
    /// every run. Each data set is loaded once, to check the settings.
    ///
    /// # Errors
    /// When a data set cannot be loaded, or a combination of levels makes no sense for it.
    pub fn new(experiment: &Experiment, fixed: &[OsString]) -> Result<Self, Failure> {
        let combinations = combinations(experiment);
        let mut loaded: Option<Data> = None;
        let mut loaded_from = None;
        let mut points = Vec::with_capacity(combinations.len());
        for levels in &combinations {
            let options = train_options(levels, fixed)?;
            let data = match &mut loaded {
                Some(data) if loaded_from == Some(options.run.dataset.clone()) => data,
                _ => {
                    loaded_from = Some(options.run.dataset.clone());
                    loaded.insert(Data::load(options.run.dataset.as_deref())?)
                }
            };
            let mut point = Point::new(experiment, levels, &options, data)?;
            // Levels that differ only in what a file's name cannot have.
            while points.iter().any(|other: &Point| other.stem == point.stem) {
                point.stem += "-2";
            }
            points.push(point);
        }
        let count = points.len();
        let runs = (0..=experiment.repetitions).flat_map(|repetition| {
            let order = match repetition {
                // The charts come in the order of the tables.
                0 => (0..count).collect(),
                _ => shuffled(experiment.seed, repetition, count),
            };
            order.into_iter().map(move |point| Planned { point, repetition })
        });
        let runs = runs.collect();
        let bases = combinations.iter().map(|levels| base_of(experiment, &combinations, levels));
        let bases = bases.collect();
        Ok(Plan { points, runs, bases })
    }
}

fn shuffled(seed: u64, repetition: u32, count: usize) -> Vec<usize> {
    sample_order(seed, repetition, count).into_iter().map(|index| index as usize).collect()
}

type Chosen<'a> = Vec<(&'static Factor, &'a str)>;

/// Every combination of levels, the last factor's changing fastest.
fn combinations(experiment: &Experiment) -> Vec<Chosen<'_>> {
    let mut all: Vec<Chosen<'_>> = vec![Vec::new()];
    for (factor, levels) in experiment.factors() {
        let mut longer = Vec::with_capacity(all.len() * levels.len());
        for chosen in &all {
            for level in levels {
                longer.push([&chosen[..], &[(factor, level.as_str())]].concat());
            }
        }
        all = longer;
    }
    all
}

/// Index of what `levels` is held against: the same conditions with the base line's levels of
/// the factors that are compared; where none is varied, the base line's levels of all factors.
fn base_of(experiment: &Experiment, all: &[Chosen<'_>], levels: &Chosen<'_>) -> Option<usize> {
    let varied =
        |role| experiment.factors().any(|(factor, all)| factor.role == role && all.len() > 1);
    let keeps = |factor: &Factor| factor.role == Role::Condition && varied(Role::Compared);
    let base: Chosen<'_> = levels
        .iter()
        .map(|&(factor, level)| {
            let base = experiment.base_level(factor).unwrap_or(level);
            (factor, if keeps(factor) { level } else { base })
        })
        .collect();
    all.iter().position(|chosen| *chosen == base).filter(|_| base != *levels)
}

fn train_options(levels: &Chosen<'_>, fixed: &[OsString]) -> Result<TrainOptions, Failure> {
    let mut words: Vec<OsString> = ["millrace", "train"].map(OsString::from).to_vec();
    words.extend(levels.iter().flat_map(|(factor, level)| factor.arguments(level)));
    words.extend_from_slice(fixed);
    match options::parse::<Cli>(words)? {
        Some(Cli { command: Some(Command::Train(options)), .. }) => Ok(options),
        _ => Err(Failure::usage("the options of the experiment are not those of a training")),
    }
}

impl Point {
    fn new(
        experiment: &Experiment,
        levels: &Chosen<'_>,
        options: &TrainOptions,
        data: &Data,
    ) -> Result<Self, Failure> {
        let combination = Combination::new(options.arena, options.loader);
        let (mut label, mut stem) = (combination.to_string(), combination.file_name());
        for (factor, level) in levels {
            let is_varied = experiment.factors().any(|(f, all)| f == *factor && all.len() > 1);
            if is_varied && !matches!(factor.key, "arena" | "loader") {
                label += &format!(", {} {level}", factor.words());
                stem += &format!("-{}-{}", factor.key.replace('_', "-"), file_word(level));
            }
        }
        let settings = data.check(&options.run).map_err(|failure| match levels.len() {
            0 => failure,
            _ => failure.in_context(&label),
        })?;
        Ok(Point {
            combination,
            settings,
            dataset: data.name.clone(),
            levels: levels
                .iter()
                .map(|(factor, level)| (factor.key.to_owned(), (*level).to_owned()))
                .collect(),
            label,
            stem,
        })
    }

    /// The words of the command line of its runs. They say everything that decides what is run:
    /// runs with the same words are runs of the same thing.
    pub fn arguments(&self) -> Vec<OsString> {
        let Combination { arena, loader } = self.combination;
        let mut words = vec![
            OsString::from(format!("--arena={arena}")),
            OsString::from(format!("--loader={loader}")),
        ];
        words.extend(self.settings.arguments());
        words
    }
}

/// A level as a part of a file's name.
fn file_word(level: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    level.chars().map(plain).collect::<String>().trim_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn plan(text: &str, fixed: &[&str]) -> Result<Plan, Failure> {
        let experiment = Experiment::parse(text).expect("a valid file");
        Plan::new(&experiment, &fixed.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_standard_is_every_arena_with_every_loader() {
        let plan = plan("", &["--epochs", "2", "--workers", "3"]).expect("valid");
        let of: Vec<Combination> = plan.points.iter().map(|point| point.combination).collect();
        assert_eq!(of, Combination::ALL);
        assert_eq!(plan.points[7].label, "double/advanced");
        assert_eq!(plan.points[7].stem, "double-advanced");
        assert_eq!(plan.points[7].settings.workers, 3);
        assert_eq!(plan.bases[0], None);
        assert!(plan.bases[1..].iter().all(|base| *base == Some(0)));
    }

    #[test]
    fn each_repetition_has_every_point_once_in_an_order_of_its_own() {
        let plan = plan("repetitions = 3", &[]).expect("valid");
        assert_eq!(plan.runs.len(), 4 * 8);
        let block = |repetition: u32| -> Vec<usize> {
            let runs = plan.runs.iter().filter(|run| run.repetition == repetition);
            runs.map(|run| run.point).collect()
        };
        for repetition in 0..=3 {
            assert_eq!(block(repetition).iter().collect::<HashSet<_>>().len(), 8);
        }
        assert_eq!(block(0), (0..8).collect::<Vec<_>>());
        assert_ne!(block(1), block(2));
        assert_ne!(block(1), block(0));
        assert!(plan.runs.is_sorted_by_key(|run| run.repetition));
    }

    #[test]
    fn levels_are_compared_within_their_conditions() {
        let text = "[factors]\narena = ['single', 'double']\nloader = 'naive'\nbatch_size = [5, 10]\n\
                    [base]\narena = 'double'";
        let plan = plan(text, &[]).expect("valid");
        let labels: Vec<&str> = plan.points.iter().map(|point| point.label.as_str()).collect();
        assert_eq!(labels[0], "single/naive, batch size 5");
        assert_eq!(plan.points[3].stem, "double-naive-batch-size-10");
        assert_eq!(plan.bases, [Some(2), Some(3), None, None]);
    }

    #[test]
    fn where_only_conditions_vary_they_are_compared() {
        let text = "[factors]\narena = 'single'\nloader = 'naive'\nworkers = [1, 2, 4]";
        assert_eq!(plan(text, &[]).expect("valid").bases, [None, Some(0), Some(0)]);
    }

    #[test]
    fn a_combination_that_makes_no_sense_is_named() {
        let text = "[factors]\narena = 'single'\nloader = 'naive'\nbatch_size = [1, 64]";
        let failure = plan(text, &["--samples", "20"]).expect_err("too few samples");
        let told = failure.to_string();
        assert!(told.contains("single/naive, batch size 64: --batch-size 64"), "{told}");
        assert_eq!(failure.code(), 2);
    }

    #[test]
    fn the_same_arguments_are_the_same_runs() {
        let text =
            |workers| format!("[factors]\narena = 'single'\nloader = 'naive'\nworkers = {workers}");
        let one = plan(&text("[1]"), &[]).expect("valid");
        let two = plan(&text("[2, 1]"), &[]).expect("valid");
        assert_eq!(one.points[0].arguments(), two.points[1].arguments());
        assert_ne!(one.points[0].arguments(), two.points[0].arguments());
    }

    #[test]
    fn any_level_makes_a_file_name() {
        assert_eq!(file_word("/data/a b"), "data-a-b");
        assert_eq!(file_word("0.001"), "0.001");
        assert_eq!(file_word(".."), "");
    }
}
