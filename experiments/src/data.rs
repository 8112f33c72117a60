//! The data sets that can be trained on.

use std::path::Path;

use millrace_loader::{Dataset, embedded, idx};

use crate::failure::{Failure, chain};
use crate::learner;
use crate::options::{RunOptions, Settings};

/// Training and test samples, with a name for titles.
#[derive(Clone, Debug)]
pub struct Data {
    /// What it is called: `Fashion-MNIST, embedded`, or its folder.
    pub name: String,
    /// Samples to train on.
    pub train: Dataset,
    /// Samples to test on.
    pub test: Dataset,
}

impl Data {
    /// Reads the four IDX files in `folder`, or takes the embedded images.
    ///
    /// # Errors
    /// A failure that names the file, the place in it and the reason.
    pub fn load(folder: Option<&Path>) -> Result<Self, Failure> {
        let (name, (train, test)) = match folder {
            Some(folder) => {
                let parts = idx::read_dir(folder).map_err(|error| {
                    Failure::failed(format_args!("data set: {}", chain(&error)))
                })?;
                (folder.display().to_string(), parts)
            }
            None => ("Fashion-MNIST, embedded part".to_owned(), embedded()),
        };
        Ok(Data { name, train, test })
    }

    /// The settings that `options` mean for this data set.
    ///
    /// # Errors
    /// When they make no sense for it, or when the network does not fit its images.
    pub fn check(&self, options: &RunOptions) -> Result<Settings, Failure> {
        let network = learner::network(&self.train)?;
        Settings::check(options, self.train.len(), |batch_size| network.default_shards(batch_size))
    }
}
