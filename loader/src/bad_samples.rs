//! What a loader does about a sample that cannot be decoded.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use crate::error::{DataError, SampleError};
use crate::{SamplePlace, Samples};

/// What a loader does about a sample that cannot be decoded. An epoch never becomes shorter.
///
/// To leave bad samples out, [`check`](crate::check::check) the data set first and take the
/// [`Subset`](crate::Subset) without them: the length of an epoch is then known before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum BadSamples {
    /// The load fails, with an error that names the sample, its file and the cause.
    #[default]
    Fail,
    /// The next good sample in the order of the data set stands in for it, and the bad one is
    /// listed ([`Loader::bad_samples`](crate::Loader::bad_samples)). The stream still depends on
    /// data set, seed, epoch and index alone.
    Substitute {
        /// The load fails when this many different samples are bad already.
        limit: usize,
    },
}

/// A sample that could not be decoded, and what stands in for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSample {
    /// Index of the sample.
    pub index: usize,
    /// Index of the sample that was taken instead.
    pub substitute: usize,
    /// What the sample is called, and why it is bad.
    pub message: String,
}

/// Decodes by the policy, and keeps the list.
#[derive(Debug)]
pub(crate) struct Decoder {
    policy: BadSamples,
    bad: Mutex<Vec<BadSample>>,
}

impl Decoder {
    pub(crate) fn new(policy: BadSamples) -> Self {
        Decoder { policy, bad: Mutex::default() }
    }

    /// The list so far, in order of the samples.
    pub(crate) fn bad_samples(&self) -> Vec<BadSample> {
        let mut bad = self.bad.lock().unwrap_or_else(PoisonError::into_inner).clone();
        bad.sort_by_key(|sample| sample.index);
        bad
    }

    pub(crate) fn decode(
        &self,
        samples: &dyn Samples,
        place: SamplePlace,
        values: &mut [f32],
        labels: &mut [u8],
    ) -> Result<(), SampleError> {
        let Err(error) = decode(samples, place, values, labels) else { return Ok(()) };
        let BadSamples::Substitute { limit } = self.policy else { return Err(error) };
        // After a whole round there is no good sample at all.
        for step in 1..samples.len() {
            let index = (place.index + step) % samples.len();
            if decode(samples, SamplePlace { index, ..place }, values, labels).is_ok() {
                return self.list(place.index, index, error, limit);
            }
        }
        Err(error)
    }

    /// Lists a bad sample once, however often it comes.
    fn list(
        &self,
        index: usize,
        substitute: usize,
        error: SampleError,
        limit: usize,
    ) -> Result<(), SampleError> {
        let mut bad = self.bad.lock().unwrap_or_else(PoisonError::into_inner);
        if bad.iter().any(|sample| sample.index == index) {
            return Ok(());
        }
        if bad.len() >= limit {
            return Err(SampleError::Limit { limit, last: Box::new(error) });
        }
        bad.push(BadSample { index, substitute, message: error.to_string() });
        Ok(())
    }
}

/// Decodes one sample; a decoder that panics has found a bad sample, too.
pub(crate) fn decode(
    samples: &dyn Samples,
    place: SamplePlace,
    values: &mut [f32],
    labels: &mut [u8],
) -> Result<(), SampleError> {
    let name = || samples.sample_name(place.index);
    // The slices are overwritten or thrown away; a data set holds no lock while it decodes.
    let decoded = catch_unwind(AssertUnwindSafe(|| samples.decode(place, values, &mut *labels)));
    match decoded {
        Ok(Ok(())) => {}
        Ok(Err(cause)) => return Err(SampleError::Decode { name: name(), cause }),
        Err(panic) => {
            return Err(SampleError::Panic { name: name(), message: panic_message(&*panic) });
        }
    }
    let classes = samples.classes();
    match labels.iter().find(|&&label| usize::from(label) >= classes) {
        None => Ok(()),
        Some(&label) => {
            let cause = DataError::Label {
                name: samples.name().to_owned(),
                index: place.index,
                label,
                classes,
            };
            Err(SampleError::Decode { name: name(), cause })
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or(panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}
