//! The progress bar, on standard error and only where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::combination::Combination;
use crate::protocol::Progress;

/// A bar of `steps` steps with room for a message; `quiet` hides it.
pub fn bar(steps: u64, quiet: bool) -> ProgressBar {
    let bar = match quiet {
        true => ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden()),
        false => ProgressBar::new(steps),
    };
    let template = "{msg:32!} {wide_bar} {percent:>3}% {elapsed} (eta {eta})";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar
}

/// A bar over all batches of one or more runs.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    /// Batches of the runs before this one.
    before: u64,
    batches: u64,
}

impl Bar {
    /// A bar for `runs` runs of `batches` batches; `quiet` hides it.
    pub fn new(runs: usize, batches: u32, quiet: bool) -> Self {
        let bar = bar(runs as u64 * u64::from(batches), quiet);
        Bar { bar, before: 0, batches: u64::from(batches) }
    }

    /// Shows how far the run of `combination` has come.
    pub fn show(&self, combination: Combination, progress: &Progress) {
        self.bar.set_position(self.before + u64::from(progress.batch));
        let loss = progress.loss.map(|loss| format!(", loss {loss:.4}")).unwrap_or_default();
        self.bar.set_message(format!("{combination} epoch {}{loss}", progress.epoch));
    }

    /// The run is over, one way or another.
    pub fn next_run(&mut self) {
        self.before += self.batches;
        self.bar.set_position(self.before);
    }

    /// Removes the bar, to make room for the table.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
