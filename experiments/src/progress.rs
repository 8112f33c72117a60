//! The progress bar, on standard error and only where that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
}

impl Bar {
    /// A bar for `batches` batches in all; `quiet` hides it.
    pub fn new(batches: u64, quiet: bool) -> Self {
        Bar { bar: bar(batches, quiet), before: 0 }
    }

    /// Shows how far the run called `label` has come.
    pub fn show(&self, label: &str, progress: &Progress) {
        self.bar.set_position(self.before + u64::from(progress.batch));
        let loss = progress.loss.map(|loss| format!(", loss {loss:.4}")).unwrap_or_default();
        self.bar.set_message(format!("{label} epoch {}{loss}", progress.epoch));
    }

    /// A run of `batches` batches is over, one way or another.
    pub fn next_run(&mut self, batches: u32) {
        self.before += u64::from(batches);
        self.bar.set_position(self.before);
    }

    /// Removes the bar, to make room for the table.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
