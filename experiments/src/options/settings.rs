//! What a command line means once the data set is known.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use super::{BatchRange, Bytes, RunOptions, SchedulerChoice};
use crate::failure::Failure;
use crate::machine;

/// More worker threads than this are a mistake, not a wish.
pub const MAX_WORKERS: usize = 1024;
/// More parts of a batch than this are too.
const MAX_SHARDS: usize = 65_536;
/// Length of the trace by default: long enough to show the steady state, short enough for a
/// chart that a browser opens at once.
const TRACED_BATCHES: u32 = 60;
/// Where the trace begins by default: after the memory has settled.
const TRACED_FROM: u32 = 120;

/// A run's parameters, checked against the data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Times that every sample is used, at least 1.
    pub epochs: u32,
    /// Samples per batch, 1 to `samples`.
    pub batch_size: usize,
    /// Worker threads, at most [`MAX_WORKERS`].
    pub workers: usize,
    /// Whether each worker is bound to a processor.
    pub pin: bool,
    /// Training samples used, from the first on.
    pub samples: usize,
    /// Decides initial weights and order.
    pub seed: u32,
    /// Folder of the data set; embedded images without one. Written down as text, so a name that
    /// is not UTF-8 is changed there.
    #[serde(serialize_with = "as_text")]
    pub dataset: Option<PathBuf>,
    /// Whether each epoch has its own order of samples.
    pub shuffle: bool,
    /// Parts of a batch, at least 1.
    pub shards: usize,
    /// Learning rate, above 0.
    pub lr: f64,
    /// Submitted, unfinished tasks at most.
    pub window: Option<usize>,
    /// Seconds without a task that starts or ends after which a run is said to stall.
    pub watchdog: Option<f64>,
    /// Bytes that such tasks declare at most, above 0.
    pub memory_window: Option<Bytes>,
    /// Which worker runs which ready task next.
    pub scheduler: SchedulerChoice,
    /// The trace to follow, where the scheduler is `static`. Written down as text.
    #[serde(serialize_with = "as_text")]
    pub placement: Option<PathBuf>,
    /// Spans that a trace keeps of each thread at most.
    pub trace_capacity: Option<usize>,
    /// Batches in the trace, all of them batches of the run.
    pub trace_batches: BatchRange,
}

impl Settings {
    /// Checks `options` for a data set of `available` training samples. `default_shards` gives
    /// the number of shards for a batch size where none is asked for; it must not depend on the
    /// machine, because the order in which gradients are added up follows it, and with that the
    /// weights.
    ///
    /// # Errors
    /// A usage failure that names the option, its value and what would be valid.
    pub fn check(
        options: &RunOptions,
        available: usize,
        default_shards: impl FnOnce(usize) -> usize,
    ) -> Result<Self, Failure> {
        let set = match &options.dataset {
            Some(path) => format!("the data set in {}", path.display()),
            None => "the embedded data set".to_owned(),
        };
        let samples = options.samples.unwrap_or(available);
        if options.epochs == 0 {
            return Err(Failure::usage("--epochs 0: at least 1 epoch is needed"));
        }
        if samples == 0 {
            return Err(Failure::usage("--samples 0: at least 1 sample is needed"));
        }
        if samples > available {
            return Err(Failure::usage(format_args!(
                "--samples {samples}: {set} has {available} training samples"
            )));
        }
        let batch_size = options.batch_size;
        if batch_size == 0 {
            return Err(Failure::usage("--batch-size 0: a batch has at least 1 sample"));
        }
        if batch_size > samples {
            return Err(Failure::usage(format_args!(
                "--batch-size {batch_size}: only {samples} samples of {set} are used"
            )));
        }
        let workers = options.workers.unwrap_or_else(machine::available_cores);
        if workers > MAX_WORKERS {
            return Err(Failure::usage(format_args!(
                "--workers {workers}: at most {MAX_WORKERS} are possible"
            )));
        }
        let shards = options.shards.unwrap_or_else(|| default_shards(batch_size));
        if shards == 0 || shards > MAX_SHARDS {
            return Err(Failure::usage(format_args!(
                "--shards {shards}: wanted 1 to {MAX_SHARDS}"
            )));
        }
        // Parameters are `f32`, and so is the rate in the end.
        let rate = options.lr as f32;
        if !(rate.is_finite() && rate > 0.0) {
            let (least, most) = (f32::MIN_POSITIVE, f32::MAX);
            return Err(Failure::usage(format_args!(
                "--lr {}: must be a number above 0, from {least:e} to {most:e}",
                options.lr
            )));
        }
        if options.window == Some(0) {
            return Err(Failure::usage("--window 0: at least 1 task must fit"));
        }
        if let Some(seconds) = options.watchdog
            && !Duration::try_from_secs_f64(seconds).is_ok_and(|time| !time.is_zero())
        {
            return Err(Failure::usage(format_args!(
                "--watchdog {seconds}: must be a number of seconds above 0"
            )));
        }
        if options.memory_window == Some(Bytes(0)) {
            return Err(Failure::usage("--memory-window 0: at least 1 byte must fit"));
        }
        let follows = options.scheduler == SchedulerChoice::Static;
        if follows != options.placement.is_some() {
            return Err(Failure::usage(match follows {
                true => "--scheduler static: needs the trace that it is to follow, --placement",
                false => "--placement: only with --scheduler static",
            }));
        }
        let batches = batch_count(samples, batch_size, options.epochs)?;
        Ok(Settings {
            epochs: options.epochs,
            batch_size,
            workers,
            pin: options.pin,
            samples,
            seed: options.seed,
            dataset: options.dataset.clone(),
            shuffle: options.shuffle,
            shards,
            lr: options.lr,
            window: options.window,
            watchdog: options.watchdog,
            memory_window: options.memory_window,
            scheduler: options.scheduler,
            placement: options.placement.clone(),
            trace_capacity: options.trace_capacity,
            trace_batches: traced(options.trace_batches, batches)?,
        })
    }

    /// Batches of the whole run.
    pub fn batches(&self) -> u32 {
        batch_count(self.samples, self.batch_size, self.epochs).unwrap_or(u32::MAX)
    }

    /// The options that give these settings on any machine, for a command line.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        let mut option = |name: &str, value: String| {
            arguments.extend([OsString::from(name), OsString::from(value)]);
        };
        option("--epochs", self.epochs.to_string());
        option("--batch-size", self.batch_size.to_string());
        option("--workers", self.workers.to_string());
        option("--samples", self.samples.to_string());
        option("--seed", self.seed.to_string());
        option("--shards", self.shards.to_string());
        option("--lr", self.lr.to_string());
        option("--trace-batches", self.trace_batches.to_string());
        if let Some(window) = self.window {
            option("--window", window.to_string());
        }
        if let Some(seconds) = self.watchdog {
            option("--watchdog", seconds.to_string());
        }
        if let Some(Bytes(bytes)) = self.memory_window {
            option("--memory-window", bytes.to_string());
        }
        if self.scheduler != SchedulerChoice::default() {
            option("--scheduler", self.scheduler.to_string());
        }
        if let Some(spans) = self.trace_capacity {
            option("--trace-capacity", spans.to_string());
        }
        if let Some(path) = &self.placement {
            arguments.extend([OsString::from("--placement"), path.clone().into_os_string()]);
        }
        if let Some(path) = &self.dataset {
            // A path need not be text.
            arguments.extend([OsString::from("--dataset"), path.clone().into_os_string()]);
        }
        if self.pin {
            arguments.push(OsString::from("--pin"));
        }
        if self.shuffle {
            arguments.push(OsString::from("--shuffle"));
        }
        arguments
    }
}

/// Batches of a run; their numbers must fit the labels of a trace.
fn batch_count(samples: usize, batch_size: usize, epochs: u32) -> Result<u32, Failure> {
    let per_epoch = samples.div_ceil(batch_size) as u64;
    u32::try_from(per_epoch.saturating_mul(u64::from(epochs))).map_err(|_| {
        Failure::usage(format_args!(
            "--epochs {epochs}: {per_epoch} batches per epoch make more than {} in all",
            u32::MAX
        ))
    })
}

fn traced(wanted: Option<BatchRange>, batches: u32) -> Result<BatchRange, Failure> {
    match wanted {
        Some(range) if range.first >= batches => Err(Failure::usage(format_args!(
            "--trace-batches {range}: the run has the batches 0..{batches}"
        ))),
        Some(range) => Ok(BatchRange { first: range.first, end: range.end.min(batches) }),
        None => {
            let first = batches.saturating_sub(TRACED_BATCHES).min(TRACED_FROM);
            Ok(BatchRange { first, end: batches.min(first + TRACED_BATCHES) })
        }
    }
}

fn as_text<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::options::SingleCli;

    fn check(arguments: &str, available: usize) -> Result<Settings, String> {
        let words = std::iter::once("single-naive").chain(arguments.split_whitespace());
        let cli = SingleCli::try_parse_from(words).expect("well formed");
        Settings::check(&cli.run, available, |batch_size| batch_size / 2).map_err(|failure| {
            assert_eq!(failure.code(), 2);
            failure.to_string()
        })
    }

    #[test]
    fn the_defaults_are_the_reference_training() {
        let settings = check("", 6000).expect("valid");
        assert_eq!((settings.epochs, settings.batch_size, settings.samples), (20, 10, 6000));
        assert_eq!((settings.seed, settings.lr, settings.shuffle), (42, 0.001, false));
        assert_eq!((settings.batches(), settings.shards), (12_000, 5));
        assert_eq!(settings.trace_batches, BatchRange { first: 120, end: 180 });
    }

    #[test]
    fn the_last_smaller_batch_counts() {
        assert_eq!(check("--batch-size 64 --epochs 3", 100).expect("valid").batches(), 6);
    }

    #[test]
    fn the_trace_stays_within_the_run() {
        let range = |arguments| check(arguments, 100).map(|settings| settings.trace_batches);
        assert_eq!(range("--epochs 1"), Ok(BatchRange { first: 0, end: 10 }));
        assert_eq!(range("--epochs 8"), Ok(BatchRange { first: 20, end: 80 }));
        assert_eq!(range("--epochs 1 --trace-batches 5..99"), Ok(BatchRange { first: 5, end: 10 }));
        assert!(range("--epochs 1 --trace-batches 10..12").expect_err("refused").contains("0..10"));
    }

    #[test]
    fn what_cannot_be_is_refused_by_name_and_number() {
        for (arguments, wanted) in [
            ("--epochs 0", "--epochs 0"),
            ("--batch-size 0", "--batch-size 0"),
            ("--batch-size 101", "--batch-size 101: only 100 samples"),
            ("--samples 50 --batch-size 51", "only 50 samples"),
            ("--samples 0", "--samples 0"),
            ("--samples 101", "the embedded data set has 100"),
            ("--samples 101 --dataset /d", "the data set in /d has 100"),
            ("--workers 1025", "at most 1024"),
            ("--shards 0", "--shards 0"),
            ("--lr 0", "--lr 0"),
            ("--lr nan", "--lr NaN"),
            ("--window 0", "--window 0"),
            ("--watchdog 0", "--watchdog 0"),
            ("--watchdog=-1", "--watchdog -1"),
            ("--watchdog nan", "--watchdog NaN"),
            ("--watchdog 1e300", "above 0"),
            ("--memory-window 0K", "--memory-window 0"),
            ("--scheduler static", "--placement"),
            ("--placement t.json", "--scheduler static"),
            ("--scheduler fifo --placement t.json", "--scheduler static"),
            ("--epochs 4000000000", "--epochs 4000000000"),
        ] {
            let message = check(arguments, 100).expect_err(arguments);
            assert!(message.contains(wanted), "{message}");
        }
        assert!(check("--workers 1024 --batch-size 100", 100).is_ok());
    }

    #[test]
    fn the_arguments_give_the_same_settings_again() {
        let given = "--epochs 3 --batch-size 7 --workers 5 --pin --samples 90 --seed 7 --shuffle \
                     --shards 3 --lr 0.01 --window 99 --watchdog 0.25 --dataset /d \
                     --trace-batches 3..9 --memory-window 3M --scheduler static --placement t.json \
                     --trace-capacity 77";
        let settings = check(given, 100).expect("valid");
        let arguments = settings.arguments().join(std::ffi::OsStr::new(" "));
        let again = check(&arguments.to_string_lossy(), 100).expect("valid");
        assert_eq!(again, settings);
    }
}
