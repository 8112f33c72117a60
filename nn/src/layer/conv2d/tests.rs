use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::Element;
use crate::check::{assert_close, check_gradients, numbers};

/// The settings of a case, its channels and sizes, and a number of samples.
fn case() -> impl Strategy<Value = (Conv2dConfig, Shape, usize)> {
    let channels = prop_oneof![
        3 => (1usize..6, 1usize..20).prop_map(|(c, f)| (1, c, f)),
        1 => Just((1, 17, 5)),
        1 => Just((1, 3, 34)),
        1 => Just((1, 8, 50)),
        // Groups, then depthwise.
        1 => (2usize..4, 1usize..4, 1usize..6).prop_map(|(g, c, f)| (g, g * c, g * f)),
        1 => (2usize..20).prop_map(|c| (c, c, c)),
    ];
    let two = |range: std::ops::Range<usize>| [range.clone(), range];
    let padding = prop_oneof![
        Just(Padding::Valid),
        Just(Padding::Same),
        [0usize..3, 0usize..3, 0usize..3, 0usize..3].prop_map(Padding::Zeros),
    ];
    let config = (two(1..5), two(1..4), two(1..3), padding);
    (channels, two(1..9), config, 1usize..4).prop_map(|(channels, [h, w], config, samples)| {
        let (groups, channels, filters) = channels;
        let (kernel, stride, dilation, padding) = config;
        let bias = filters % 4 > 0;
        let config = Conv2dConfig { filters, kernel, stride, padding, dilation, groups, bias };
        (config, Shape::image(channels, h, w), samples)
    })
}

/// Calls `each(y, x, weight, filter)` with the indices of every product of one sample.
fn each_product(layer: &Conv2d, mut each: impl FnMut(usize, usize, usize, usize)) {
    let Conv2d { config, input: [channels, height, width], output, frame, .. } = layer;
    let [filters, rows, columns] = *output;
    let (inputs, [kh, kw]) = (channels / config.groups, config.kernel);
    for filter in 0..filters {
        let first = filter / (filters / config.groups) * inputs;
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)))
        {
            for (ky, kx) in (0..kh).flat_map(|ky| (0..kw).map(move |kx| (ky, kx))) {
                let y = row * config.stride[0] + ky * config.dilation[0];
                let x = column * config.stride[1] + kx * config.dilation[1];
                let (y, x) = (y.wrapping_sub(frame.border[0]), x.wrapping_sub(frame.border[1]));
                if y >= *height || x >= *width {
                    continue;
                }
                for input in 0..inputs {
                    each(
                        (row * columns + column) * filters + filter,
                        (y * width + x) * channels + first + input,
                        ((filter * inputs + input) * kh + ky) * kw + kx,
                        filter,
                    );
                }
            }
        }
    }
}

/// Output, gradients by input, weights and bias, by the kernels: `x`, weights, bias, `dy`.
fn computed<E: Element>(layer: &Conv2d, values: [&[f64]; 4], relu: bool) -> [Vec<f64>; 5] {
    let [x, weights, bias, dy] =
        values.map(|values| values.iter().map(|&value| E::narrow(value)).collect::<Vec<E>>());
    let samples = x.len() / layer.input_len();
    let none = |len: usize| vec![E::nan(); len];
    let mut packed = none(layer.packed_len::<E>());
    layer.pack(&weights, &mut packed);
    let scratch = || none(layer.scratch_len::<E>(samples));
    let (mut y, mut dx, mut data) = (none(dy.len()), none(x.len()), none(x.len()));
    let (mut dweights, mut dbias) = (none(weights.len()), none(bias.len()));
    layer.forward(&x, &packed, &bias, relu, &mut y, &mut scratch());
    layer.backward([&x, &dy, &packed], [&mut dx, &mut dweights, &mut dbias], &mut scratch());
    layer.backward_data(&dy, &packed, &mut data, &mut scratch());
    [y, dx, dweights, dbias, data].map(|values| values.into_iter().map(E::widen).collect())
}

/// The same by the plain sums.
fn wanted(layer: &Conv2d, [x, weights, bias, dy]: [&[f64]; 4], relu: bool) -> [Vec<f64>; 5] {
    let (mut y, mut dx) = (Vec::new(), vec![0.0; x.len()]);
    let (mut dweights, mut dbias) = (vec![0.0; weights.len()], vec![0.0; bias.len()]);
    let samples = x.chunks(layer.input_len()).zip(dy.chunks(layer.output_len()));
    for ((x, dy), dx) in samples.zip(dx.chunks_mut(layer.input_len())) {
        let mut out = vec![0.0; dy.len()];
        if !bias.is_empty() {
            out.iter_mut().zip(bias.iter().cycle()).for_each(|(out, &bias)| *out = bias);
        }
        each_product(layer, |o, i, weight, _| {
            out[o] += x[i] * weights[weight];
            dx[i] += dy[o] * weights[weight];
            dweights[weight] += x[i] * dy[o];
        });
        y.extend(out.into_iter().map(|value| if relu { value.max(0.0) } else { value }));
        for dy in dy.chunks_exact(layer.output[0]) {
            dbias.iter_mut().zip(dy).for_each(|(sum, dy)| *sum += dy);
        }
    }
    [y, dx.clone(), dweights, dbias, dx]
}

fn compare<E: Element>(layer: &Conv2d, samples: usize, relu: bool, tolerance: f64) {
    let x = numbers(samples * layer.input_len(), 1);
    let (weights, bias) = (numbers(layer.weights_len(), 2), numbers(layer.bias_len(), 3));
    let dy = numbers(samples * layer.output_len(), 4);
    let values = [&x[..], &weights, &bias, &dy];
    let wanted = wanted(layer, values, relu);
    for unit in VectorUnit::all() {
        let layer = Conv2d { unit, ..layer.clone() };
        for (got, wanted) in computed::<E>(&layer, values, relu).iter().zip(&wanted) {
            assert_close(got, wanted, tolerance);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn every_unit_computes_the_plain_sums((config, input, samples) in case(), relu in any::<bool>()) {
        let Ok(layer) = config.build("conv", input) else {
            // Only a kernel that leaves a small image is refused.
            prop_assert_ne!(config.padding, Padding::Same);
            return Ok(());
        };
        compare::<f64>(&layer, samples, relu, 1e-12);
        compare::<f32>(&layer, samples, relu, 1e-4);
    }

    #[test]
    fn same_padding_keeps_the_size((config, input, _) in case()) {
        let config = config.padding(Padding::Same).stride([1, 1]);
        let Shape::Image { height, width, .. } = input else { unreachable!() };
        let output = config.build("conv", input).unwrap().output();
        prop_assert_eq!(output, Shape::image(config.filters, height, width));
    }
}

#[test]
fn many_samples_and_places_share_tiles() {
    // More places than are worked on together, in one sample and in several.
    for (size, samples) in [(20, 2), (7, 11), (1, 300)] {
        let config = Conv2dConfig::new(5, [3, 3]).padding(Padding::Same);
        let layer = config.build("conv", Shape::image(3, size, size)).unwrap();
        compare::<f64>(&layer, samples, false, 1e-11);
    }
}

#[test]
fn no_bits_depend_on_the_samples_beside() {
    let config = Conv2dConfig::new(20, [3, 3]).padding(Padding::Same).stride([2, 1]);
    let input = Shape::image(3, 5, 5);
    let layer = config.build("conv", input).unwrap();
    let (x, dy) = (numbers(9 * input.len(), 1), numbers(9 * layer.output().len(), 4));
    let (weights, bias) = (numbers(layer.weights_len(), 2), numbers(layer.bias_len(), 3));
    let [y, dx, ..] = computed::<f32>(&layer, [&x, &weights, &bias, &dy], true);
    let samples = x.chunks(input.len()).zip(dy.chunks(layer.output().len()));
    let mut alone = [Vec::new(), Vec::new()];
    for (x, dy) in samples {
        let [y, dx, ..] = computed::<f32>(&layer, [x, &weights, &bias, dy], true);
        alone[0].extend(y);
        alone[1].extend(dx);
    }
    assert_eq!([y, dx], alone);
}

#[test]
fn a_relu_keeps_what_is_not_a_number() {
    let layer = Conv2dConfig::new(1, [1, 1]).build("conv", Shape::image(1, 1, 3)).unwrap();
    let [y, ..] =
        computed::<f32>(&layer, [&[f64::NAN, -1.0, 1.0], &[2.0], &[0.5], &[0.0; 3]], true);
    assert!(y[0].is_nan());
    assert_eq!(y[1..], [0.0, 2.5]);
}

#[test]
fn the_layer_has_the_gradients_of_its_output() {
    for (channels, filters, samples) in [(1, 1, 1), (1, 3, 2), (3, 1, 2), (5, 17, 1)] {
        let input = Shape::image(channels, 4, 3);
        let config = Conv2dConfig::new(filters, [3, 2]).padding(Padding::Same);
        for config in [config, config.without_bias()] {
            let layer = config.build("conv2d", input).unwrap();
            check_gradients(Arc::new(layer), &[input], samples);
        }
    }
}

#[test]
fn errors_name_layer_shape_and_need() {
    let config = Conv2dConfig::new(4, [3, 3]);
    let message = |input| config.build("2 (conv2d)", input).unwrap_err().to_string();
    assert_eq!(
        message(Shape::image(4, 2, 9)),
        "layer 2 (conv2d): got shape 4x2x9, wanted an image of at least 4x3x3"
    );
    assert_eq!(
        message(Shape::Features(10)),
        "layer 2 (conv2d): got shape 10, wanted an image (channels x height x width)"
    );
    let message = |config: Conv2dConfig| {
        config.build("0 (conv2d)", Shape::image(4, 9, 9)).unwrap_err().to_string()
    };
    let none = Conv2dConfig::new(0, [3, 3]);
    assert_eq!(message(none), "0 (conv2d): filters is 0, wanted at least 1");
    assert_eq!(
        message(config.groups(3)),
        "0 (conv2d): groups is 3, wanted a divisor of the numbers of channels and of filters"
    );
    assert_eq!(
        message(config.dilation([5, 1])),
        "layer 0 (conv2d): got shape 4x9x9, wanted an image of at least 4x11x3"
    );
}

#[test]
fn a_stride_beyond_the_image_leaves_one_place() {
    let config = Conv2dConfig::new(2, [2, 2]).stride([usize::MAX, 5]);
    let layer = config.build("conv", Shape::image(3, 4, 4)).unwrap();
    assert_eq!(layer.output(), Shape::image(2, 1, 1));
    compare::<f64>(&layer, 2, false, 1e-12);
}

#[test]
fn huge_sizes_are_refused() {
    let huge = usize::MAX / 2;
    let small = Shape::image(1, 9, 9);
    for (config, input) in [
        (Conv2dConfig::new(huge, [3, 3]), small),
        (Conv2dConfig::new(1, [huge, 3]).padding(Padding::Same), small),
        (Conv2dConfig::new(1, [3, 3]).padding(Padding::Zeros([huge, 1, huge, 1])), small),
        (Conv2dConfig::new(1, [3, 3]).dilation([huge, huge]).padding(Padding::Same), small),
        (Conv2dConfig::new(1, [3, 3]), Shape::image(huge, huge, 9)),
    ] {
        assert!(config.build("conv", input).is_err(), "{config:?} {input}");
    }
}
