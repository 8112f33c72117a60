//! Known values, distributions, and what values depend on.

use super::*;

fn parameter(fan_in: usize, fan_out: usize) -> Parameter {
    Parameter::weight(&[1], [fan_in, fan_out])
}

fn filled(init: Init, seed: u64, name: &str, parameter: &Parameter, len: usize) -> Vec<f64> {
    init.check().unwrap();
    let mut values = vec![f64::NAN; len];
    init.fill(seed, name, parameter, &mut values);
    values
}

const UNIT: Init = Init::Uniform { low: 0.0, high: 1.0 };
const NORMAL: Init = Init::Normal { mean: 0.0, deviation: 1.0 };

/// Computed by a separate program from the description of [`Numbers`].
#[test]
fn golden() {
    let names = [(0, ""), (42, "conv1.weight"), (u64::MAX, "layer1.0.conv1.weight")];
    let uniform = [
        [0.09224019778906367, 0.9793699777640437, 0.7903992871705063, 0.021517908300954458],
        [0.9925970276728154, 0.009539487261983504, 0.008763222547436444, 0.6263890989241548],
        [0.7593241086406937, 0.11701581028209718, 0.6090494533099097, 0.14773806761040242],
    ];
    let normal = [
        [0.43625346351549793, -0.05686700575464529, 0.08936979577499894],
        [3.126745883529197, 0.18763679542669143, -0.5666268465173332],
        [1.2517859840634078, 1.132095424242479, 1.259673907341667],
    ];
    for (((seed, name), uniform), normal) in names.into_iter().zip(uniform).zip(normal) {
        let got = filled(UNIT, seed, name, &parameter(1, 1), 12);
        assert_eq!([got[0], got[1], got[2], got[11]], uniform, "{name}");
        let got = filled(NORMAL, seed, name, &parameter(1, 1), 12);
        for (got, wanted) in [got[0], got[1], got[11]].into_iter().zip(normal) {
            assert!((got - wanted).abs() < 1e-14, "{name}: {got} {wanted}");
        }
    }
}

/// The largest distance between the share of values below a bound and what it should be (the
/// statistic of Kolmogorov and Smirnov). For 10,000 true draws it passes 0.02 once in 1000 cases.
fn distance(values: &[f64], cumulative: impl Fn(f64) -> f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let len = values.len() as f64;
    let off = |(i, &value): (usize, &f64)| {
        let wanted = cumulative(value);
        (wanted - i as f64 / len).abs().max((wanted - (i + 1) as f64 / len).abs())
    };
    values.iter().enumerate().map(off).fold(0.0, f64::max)
}

fn uniform_between(low: f64, high: f64) -> impl Fn(f64) -> f64 {
    move |value| ((value - low) / (high - low)).clamp(0.0, 1.0)
}

fn normal_with(mean: f64, deviation: f64) -> impl Fn(f64) -> f64 {
    move |value| 0.5 * libm::erfc(-(value - mean) / (deviation * 2f64.sqrt()))
}

#[test]
fn values_are_distributed_as_they_should_be() {
    let (layer, gain) = (parameter(50, 200), 2f64.sqrt());
    let [uniform, normal] = [Distribution::Uniform, Distribution::Normal];
    // PyTorch's formulas: bounds of gain * sqrt(3 / fan), gain * sqrt(6 / (fan in + fan out)).
    let (kaiming, kaiming_out) = (gain * (3f64 / 50.0).sqrt(), gain * (3f64 / 200.0).sqrt());
    let xavier = gain * (6f64 / 250.0).sqrt();
    let kaiming_of = |distribution, fan| Init::Kaiming { distribution, fan, gain };
    let xavier_of = |distribution| Init::Xavier { distribution, gain };
    type Cumulative = Box<dyn Fn(f64) -> f64>;
    let cases: [(Init, Cumulative); 7] = [
        (Init::Uniform { low: -3.0, high: 1.0 }, Box::new(uniform_between(-3.0, 1.0))),
        (Init::Normal { mean: 2.0, deviation: 0.5 }, Box::new(normal_with(2.0, 0.5))),
        (kaiming_of(uniform, Fan::In), Box::new(uniform_between(-kaiming, kaiming))),
        (kaiming_of(uniform, Fan::Out), Box::new(uniform_between(-kaiming_out, kaiming_out))),
        (kaiming_of(normal, Fan::In), Box::new(normal_with(0.0, gain / 50f64.sqrt()))),
        (xavier_of(uniform), Box::new(uniform_between(-xavier, xavier))),
        (xavier_of(normal), Box::new(normal_with(0.0, gain * (2f64 / 250.0).sqrt()))),
    ];
    for (init, cumulative) in cases {
        for name in ["a", "b", "layer1.0.conv1.weight"] {
            let values = filled(init, 7, name, &layer, 10_000);
            let off = distance(&values, &cumulative);
            assert!(off < 0.02, "{init:?} of {name}: {off}");
            // Neighbours, and values of a pair, have nothing to do with each other.
            let centre = values.iter().sum::<f64>() / 10_000.0;
            let product = |pair: &[f64]| (pair[0] - centre) * (pair[1] - centre);
            let square: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
            let correlation = values.windows(2).map(product).sum::<f64>() / square;
            assert!(correlation.abs() < 0.04, "{init:?} of {name}: {correlation}");
        }
    }
}

#[test]
fn seed_and_name_choose_the_values_and_nothing_else_does() {
    let layer = parameter(3, 3);
    let values = |seed, name: &str, len| filled(UNIT, seed, name, &layer, len);
    let first = values(1, "a.weight", 9);
    assert_eq!(values(1, "a.weight", 4), first[..4], "more values follow");
    assert_eq!(filled(NORMAL, 1, "b", &layer, 5), filled(NORMAL, 1, "b", &layer, 6)[..5]);
    let others = [(2, "a.weight"), (1, "a.bias"), (1, "a.weigh"), (1, "a.weight\0"), (1, "")];
    for (seed, name) in others {
        assert_ne!(values(seed, name, 9), first, "{seed} {name}");
    }
    let mut single = [0.0f32; 9];
    UNIT.fill(1, "a.weight", &layer, &mut single);
    assert!(single.iter().zip(&first).all(|(&single, &double)| single == double as f32));
}

#[test]
fn roles_choose_how_a_network_begins() {
    let initial = Initial { weights: UNIT, biases: Init::ZEROS };
    let fill = |initial: Initial, role| {
        let mut values = [f64::NAN; 20];
        initial.fill(3, "x", &Parameter { role, ..parameter(16, 4) }, &mut values);
        values
    };
    assert_eq!(fill(initial, Role::Weight).to_vec(), filled(UNIT, 3, "x", &parameter(1, 1), 20));
    assert_eq!(fill(initial, Role::Bias), [0.0; 20]);
    assert_eq!(fill(initial, Role::Scale), [1.0; 20]);
    assert_eq!(fill(initial, Role::Shift), [0.0; 20]);
    for role in [Role::Weight, Role::Bias] {
        let largest = fill(Initial::default(), role).into_iter().map(f64::abs).fold(0.0, f64::max);
        assert!((0.2..=0.25).contains(&largest), "{largest}");
    }
}

#[test]
fn settings_without_meaning_are_refused() {
    let distribution = Distribution::Normal;
    for init in [
        Init::Constant { value: f64::NAN },
        Init::Uniform { low: 1.0, high: 0.5 },
        Init::Uniform { low: f64::MIN, high: f64::MAX },
        Init::Normal { mean: f64::INFINITY, deviation: 1.0 },
        Init::Normal { mean: 0.0, deviation: -1.0 },
        Init::Kaiming { distribution, fan: Fan::In, gain: f64::NAN },
        Init::Xavier { distribution, gain: -1.0 },
    ] {
        assert!(init.check().is_err(), "{init:?}");
        assert!(Initial { weights: init, ..Initial::default() }.check().is_err(), "{init:?}");
        assert!(Initial { biases: init, ..Initial::default() }.check().is_err(), "{init:?}");
    }
}
