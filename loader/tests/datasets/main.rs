//! What is done with data sets of any form: checking, showing, transforming, dividing.

mod checking;
mod dividing;
mod sheets;
mod transforms;

use millrace_loader::{DataError, LabelKind, SamplePlace, Samples};

/// Samples of any shape, whose values and labels a function gives: sample, channel, row, column.
pub(crate) struct Made {
    pub(crate) len: usize,
    pub(crate) shape: [usize; 3],
    pub(crate) classes: usize,
    /// Whether each pixel has a label: the one of its place.
    pub(crate) per_pixel: bool,
    pub(crate) value: fn(usize, [usize; 3]) -> f32,
    pub(crate) bad: &'static [usize],
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Made")
    }
}

impl Made {
    pub(crate) fn label_of(&self, index: usize) -> u8 {
        (index % self.classes) as u8
    }

    pub(crate) fn values(&self, index: usize) -> Vec<f32> {
        let [channels, height, width] = self.shape;
        let mut values = Vec::new();
        for channel in 0..channels {
            for y in 0..height {
                values.extend((0..width).map(|x| (self.value)(index, [channel, y, x])));
            }
        }
        values
    }
}

impl Samples for Made {
    fn name(&self) -> &str {
        "made"
    }

    fn len(&self) -> usize {
        self.len
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    fn label_kind(&self) -> LabelKind {
        match self.per_pixel {
            false => LabelKind::Sample,
            true => LabelKind::Pixel { labels: self.shape[1] * self.shape[2] },
        }
    }

    fn classes(&self) -> usize {
        if self.per_pixel { 256 } else { self.classes }
    }

    fn label(&self, index: usize) -> Option<u8> {
        (!self.per_pixel).then(|| self.label_of(index))
    }

    fn decode(
        &self,
        place: SamplePlace,
        values: &mut [f32],
        labels: &mut [u8],
    ) -> Result<(), DataError> {
        if self.bad.contains(&place.index) {
            let source = std::io::ErrorKind::NotFound.into();
            return Err(DataError::Read { file: format!("{}.png", place.index).into(), source });
        }
        values.copy_from_slice(&self.values(place.index));
        match self.per_pixel {
            false => labels[0] = self.label_of(place.index),
            true => labels.iter_mut().zip(0..).for_each(|(label, at)| *label = at),
        }
        Ok(())
    }
}

/// A sample and its labels.
pub(crate) fn decode(samples: &dyn Samples, epoch: u32, index: usize) -> (Vec<f32>, Vec<u8>) {
    let mut values = vec![f32::NAN; samples.sample_len()];
    let mut labels = vec![255; samples.label_kind().per_sample()];
    samples.decode(SamplePlace { epoch, index }, &mut values, &mut labels).unwrap();
    (values, labels)
}
