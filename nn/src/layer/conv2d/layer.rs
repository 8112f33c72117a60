//! The convolution as a layer of a network: on images that are stored channels last.

use super::Conv2d;
use crate::kernel::take;
use crate::layer::planes::turn;
use crate::layer::{Backward, Forward, Layer, Parameter, Uses};
use crate::{Element, Shape};

impl Conv2d {
    const fn input_channels(&self) -> usize {
        self.input[0]
    }

    const fn input_places(&self) -> usize {
        self.input[1] * self.input[2]
    }

    const fn output_places(&self) -> usize {
        self.output[1] * self.output[2]
    }

    /// Values that the planes of a shard take in scratch; none where they need not be turned.
    const fn planes_len(samples: usize, channels: usize, places: usize) -> usize {
        if channels == 1 || places == 1 { 0 } else { samples * channels * places }
    }
}

/// The planes of `values`: the same values where there is one channel or one place, else turned
/// into the front of `scratch`.
fn planes<'a, E: Element>(
    values: &'a [E],
    samples: usize,
    [channels, places]: [usize; 2],
    scratch: &mut &'a mut [E],
) -> &'a [E] {
    let len = Conv2d::planes_len(samples, channels, places);
    if len == 0 {
        return values;
    }
    let space = take(scratch, len);
    turn(values, places, channels, space);
    space
}

impl<E: Element> Layer<E> for Conv2d {
    fn kind(&self) -> &'static str {
        "conv2d"
    }

    fn output(&self) -> Shape {
        self.output()
    }

    fn parameters(&self) -> Vec<Parameter> {
        let [filters, channels] = [self.output[0], self.input[0]];
        let [kh, kw] = self.config.kernel;
        let fans = [channels * kh * kw, filters * kh * kw];
        vec![Parameter::weight(&[filters, channels, kh, kw], fans), Parameter::bias(filters, fans)]
    }

    fn uses(&self) -> Uses {
        Uses { x: true, y: false }
    }

    fn scratch_len(&self, samples: usize) -> usize {
        let input = Self::planes_len(samples, self.input_channels(), self.input_places());
        let output = Self::planes_len(samples, self.bias_len(), self.output_places());
        self.scratch_len() + 2 * input + output
    }

    fn flops(&self) -> u64 {
        self.flops()
    }

    fn forward(&self, io: Forward<'_, E>) {
        let Forward { samples, x, y, parameters, mut scratch, .. } = io;
        let input = [self.input_channels(), self.input_places()];
        let x = planes(x[0], samples, input, &mut scratch);
        let (filters, places) = (self.bias_len(), self.output_places());
        let turned = take(&mut scratch, Self::planes_len(samples, filters, places));
        if turned.is_empty() {
            self.forward(x, parameters[0], parameters[1], y, scratch);
        } else {
            self.forward(x, parameters[0], parameters[1], turned, scratch);
            turn(turned, filters, places, y);
        }
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let Backward { samples, x, parameters, dy, dx, dparameters, mut scratch, .. } = io;
        let input = [self.input_channels(), self.input_places()];
        let output = [self.bias_len(), self.output_places()];
        let x = planes(x[0], samples, input, &mut scratch);
        let dy = planes(dy, samples, output, &mut scratch);
        let turned = take(&mut scratch, Self::planes_len(samples, input[0], input[1]));
        let [dweights, dbias] = dparameters else { panic!("conv2d: two gradients") };
        self.backward_weights(x, dy, dweights, dbias, scratch);
        if dx[0].is_empty() {
            return;
        }
        if turned.is_empty() {
            self.backward_data(dy, parameters[0], dx[0], scratch);
        } else {
            self.backward_data(dy, parameters[0], turned, scratch);
            turn(turned, input[0], input[1], dx[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Shape;
    use crate::check::{check_gradients, numbers};
    use crate::layer::planes::turn;
    use crate::layer::{Alone, Conv2dConfig, Mode, Padding};
    use std::sync::Arc;

    #[test]
    fn gradients_match_finite_differences() {
        for (channels, filters, samples) in [(1, 1, 1), (1, 3, 2), (3, 1, 2), (5, 17, 1)] {
            let input = Shape::image(channels, 4, 3);
            let config = Conv2dConfig::new(filters, [3, 2]).padding(Padding::Same);
            let layer = config.build("conv2d", input).unwrap();
            check_gradients(Arc::new(layer), &[input], samples);
        }
    }

    #[test]
    fn it_is_the_convolution_of_the_planes() {
        let (channels, filters, samples) = (3, 5, 2);
        let input = Shape::image(channels, 4, 3);
        let layer = Conv2dConfig::new(filters, [2, 2]).build("conv2d", input).unwrap();
        let (x, weights) = (numbers(samples * input.len(), 1), numbers(layer.weights_len(), 2));
        let bias = numbers(filters, 3);
        let mut wanted = vec![f64::NAN; samples * layer.output().len()];
        let mut scratch = vec![f64::NAN; layer.scratch_len()];
        layer.forward(&x, &weights, &bias, &mut wanted, &mut scratch);
        let mut channels_last = vec![f64::NAN; x.len()];
        turn(&x, channels, 12, &mut channels_last);
        let mut alone = Alone::new(Arc::new(layer), &[input], vec![weights, bias]);
        let y = alone.forward(Mode::Evaluate, &[&channels_last]);
        let mut got = vec![f64::NAN; y.len()];
        turn(&y, 6, filters, &mut got);
        assert_eq!(got, wanted);
    }
}
