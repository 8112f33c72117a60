//! Loss and accuracy of an epoch.

use bytemuck::{Pod, Zeroable};
use serde::{Deserialize, Serialize};

/// What came of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochRecord {
    /// The epoch, 0 for the first.
    pub epoch: u32,
    /// Updates since the run began.
    pub updates: u64,
    /// The step size of the last of them.
    pub learning_rate: f64,
    /// The samples that were trained on, each before the update by its batch.
    pub training: Score,
    /// Samples that were kept apart, after the epoch, if there are any.
    pub validation: Option<Score>,
}

/// How well a network does on some samples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Score {
    /// The mean loss. In files, what is no finite number is `null`, and is read as NaN.
    #[serde(with = "number")]
    pub loss: f64,
    /// The share of what it got right: of the samples, or of the pixels.
    #[serde(with = "number")]
    pub accuracy: f64,
    /// The mean over the classes of [`Confusion::iou`](super::Confusion::iou), if it was asked for.
    pub mean_iou: Option<f64>,
}

/// The running sums of an epoch, as plain memory for tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[repr(C)]
pub struct EpochSums {
    /// Batches so far.
    pub batches: u64,
    /// Their samples.
    pub samples: u64,
    /// The sum of the mean losses of the batches.
    #[serde(with = "number")]
    pub loss: f64,
    /// The sum of the shares of samples that the network got right.
    #[serde(with = "number")]
    pub accuracy: f64,
}

/// Numbers in JSON, which knows no NaN and no infinities.
mod number {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_survives_and_no_number_stays_none() {
        let (loss, accuracy) = (0.1 + 0.2, 1.0 / 3.0);
        let sums = EpochSums { batches: u64::MAX, samples: 7, loss, accuracy };
        let text = serde_json::to_string(&sums).unwrap();
        assert_eq!(serde_json::from_str::<EpochSums>(&text).unwrap(), sums);

        let score = Score { loss: f64::INFINITY, accuracy: f64::NAN, mean_iou: None };
        let text = serde_json::to_string(&score).unwrap();
        assert_eq!(text, r#"{"loss":null,"accuracy":null,"mean_iou":null}"#);
        let read: Score = serde_json::from_str(&text).unwrap();
        assert!(read.loss.is_nan() && read.accuracy.is_nan());
    }
}
