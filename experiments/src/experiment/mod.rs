//! An experiment: which levels of which factors are run how often, as a small TOML file.
//!
//! ```toml
//! title = "Do larger batches hide the barriers?"
//! repetitions = 5                 # runs of each combination that count, besides a warm-up
//! seed = 1                        # decides the order of the runs
//!
//! [factors]                       # every combination of these levels is run
//! arena = ["single", "double"]
//! loader = ["naive", "advanced"]
//! batch_size = [16, 256]
//! epochs = 2
//!
//! [base]                          # what others are held against: the first levels by default
//! arena = "single"
//! loader = "naive"
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | [`factor`] | the one list of factors |
//! | [`file`](self) | the file: read, checked, written |
//! | [`plan`] | the combinations of levels, and the order of the runs |

pub mod factor;
mod file;
pub mod plan;

pub use factor::{FACTORS, Factor, Role};
pub use file::Experiment;
pub use plan::{Plan, Planned, Point};
