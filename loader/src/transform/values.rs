//! Transforms that change values where they are.

use super::random::Numbers;

/// Weights of red, green and blue in the luma of ITU-R BT.601.
const LUMA: [f32; 3] = [0.299, 0.587, 0.114];

/// (value - mean) / sd, channel by channel.
pub(super) fn normalise(values: &mut [f32], mean: &[f32], sd: &[f32]) {
    let plane = values.len() / mean.len();
    for (plane, (&mean, &sd)) in values.chunks_exact_mut(plane).zip(mean.iter().zip(sd)) {
        for value in plane {
            *value = (*value - mean) / sd;
        }
    }
}

/// Brightness, then contrast, then saturation, each times a factor drawn from 1 minus to 1 plus
/// its setting; values stay within 0 to 1.
pub(super) fn jitter(
    values: &mut [f32],
    channels: usize,
    [brightness, contrast, saturation]: [f32; 3],
    numbers: &mut Numbers,
) {
    let mut factor = |most: f32| 1.0 + numbers.within(most);
    let [brightness, contrast, saturation] = [brightness, contrast, saturation].map(&mut factor);
    for value in &mut *values {
        *value = (*value * brightness).clamp(0.0, 1.0);
    }
    let plane = values.len() / channels;
    let mean = if channels == 3 {
        (0..plane).map(|at| f64::from(luma(values, plane, at))).sum::<f64>() / plane as f64
    } else {
        values.iter().map(|&value| f64::from(value)).sum::<f64>() / values.len() as f64
    };
    let mean = mean as f32;
    for value in &mut *values {
        *value = (mean + (*value - mean) * contrast).clamp(0.0, 1.0);
    }
    if channels == 3 {
        for at in 0..plane {
            let grey = luma(values, plane, at);
            for channel in 0..3 {
                let value = &mut values[channel * plane + at];
                *value = (grey + (*value - grey) * saturation).clamp(0.0, 1.0);
            }
        }
    }
}

fn luma(values: &[f32], plane: usize, at: usize) -> f32 {
    (0..3).map(|channel| LUMA[channel] * values[channel * plane + at]).sum()
}

/// Sets a square to 0 whose middle is any pixel; beyond the edge there is nothing to set.
pub(super) fn cut_out(
    values: &mut [f32],
    [height, width]: [usize; 2],
    side: usize,
    numbers: &mut Numbers,
) {
    let span = |size: usize, middle: usize| {
        let start = middle.saturating_sub(side / 2);
        start..size.min((middle + side).saturating_sub(side / 2))
    };
    let (rows, columns) =
        (span(height, numbers.up_to(height - 1)), span(width, numbers.up_to(width - 1)));
    for plane in values.chunks_exact_mut(height * width) {
        for row in rows.clone() {
            plane[row * width..][columns.clone()].fill(0.0);
        }
    }
}
