//! Optimisers, clipping and schedules against PyTorch's, update by update; the runs are kept in
//! `fixtures/`.

mod fixtures;

use fixtures::{cases, numbers};
use millrace_nn::{Adam, Clip, Decay, Element, Optimiser, Schedule, Sgd, Step};
use serde_json::Value;

fn optimiser(case: &Value) -> Optimiser {
    let settings = &case["settings"];
    let number = |name: &str, usual: f64| settings[name].as_f64().unwrap_or(usual);
    let (rate, decay) = (number("lr", f64::NAN), number("weight_decay", 0.0));
    let beta = |i: usize, usual: f64| settings["betas"][i].as_f64().unwrap_or(usual);
    let adam = |decay| {
        let adam = Adam::new(rate).unwrap();
        let (beta1, beta2) = (beta(0, adam.beta1), beta(1, adam.beta2));
        Adam { beta1, beta2, epsilon: number("eps", adam.epsilon), decay, ..adam }.into()
    };
    match case["optimiser"].as_str().unwrap() {
        "sgd" => Optimiser::from(Sgd {
            momentum: number("momentum", 0.0),
            nesterov: settings["nesterov"] == true,
            weight_decay: decay,
            ..Sgd::new(rate).unwrap()
        }),
        "adam" => adam(Decay::Coupled(decay)),
        "adam_w" => adam(Decay::Decoupled(decay)),
        other => panic!("{other}"),
    }
}

#[track_caller]
fn same<E: Element>(what: &str, got: &[E], wanted: &[f64]) {
    // PyTorch groups some products otherwise and fuses others.
    let tolerance = 16.0 * E::epsilon().widen();
    for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let off = (got.widen() - wanted).abs();
        let scale = wanted.abs().max(1.0);
        assert!(off <= tolerance * scale, "{what}, value {i}: got {got}, wanted {wanted}");
    }
}

/// Follows a run of PyTorch: two parameters, the gradients of which come from two shards.
fn follow<E: Element>(name: &str) {
    let runs = cases("optimisers.json");
    let runs: Vec<_> = runs.iter().filter(|case| case["type"] == name).collect();
    assert_eq!(runs.len(), 11);
    for case in runs {
        let optimiser = optimiser(case);
        optimiser.check().unwrap();
        let clip = case["clip"].as_f64().map(|norm| Clip::new(norm).unwrap());
        let mut parameters: [Vec<E>; 2] = std::array::from_fn(|p| numbers(&case["start"][p]));
        let mut memory = parameters
            .each_ref()
            .map(|values| vec![vec![E::zero(); values.len()]; optimiser.memory().len()]);
        let updates = case["gradients"].as_array().unwrap();
        assert!(updates.len() >= 20);
        for (update, gradients) in updates.iter().enumerate() {
            // A quarter and three quarters: exact, as are their sums.
            let mut shards: [[Vec<E>; 2]; 2] = std::array::from_fn(|p| {
                let whole: Vec<E> = numbers(&gradients[p]);
                [0.25, 0.75].map(|part| whole.iter().map(|&g| g * E::narrow(part)).collect())
            });
            let factor = clip.map_or(1.0, |clip| {
                let squares = shards.each_mut().map(|[first, second]| {
                    let squares = Clip::gather(first, &[second]).unwrap();
                    second.fill(E::zero());
                    squares
                });
                clip.factor(&squares)
            });
            let halved = case["halved_at"].as_u64().is_some_and(|at| update as u64 >= at);
            let learning_rate = optimiser.learning_rate() * if halved { 0.5 } else { 1.0 };
            let step = Step { number: update as u64 + 1, learning_rate, factor };
            for (p, parameter) in parameters.iter_mut().enumerate() {
                let mut memory: Vec<_> = memory[p].iter_mut().map(Vec::as_mut_slice).collect();
                let gradients: Vec<_> = shards[p].iter().map(Vec::as_slice).collect();
                optimiser.update(step, parameter, &mut memory, &gradients).unwrap();
                let what = format!("{} {} update {update}", case["optimiser"], case["settings"]);
                same(&what, parameter, &numbers::<f64>(&case["values"][update][p]));
            }
        }
        for (p, memory) in memory.iter().enumerate() {
            for (name, memory) in optimiser.memory().iter().zip(memory) {
                same(name, memory, &numbers::<f64>(&case["memory"][p][name]));
            }
        }
    }
}

#[test]
fn updates_follow_pytorch_in_single_precision() {
    follow::<f32>("float32");
}

#[test]
fn updates_follow_pytorch_in_double_precision() {
    follow::<f64>("float64");
}

#[test]
fn schedules_follow_pytorch() {
    for case in cases("schedules.json") {
        let schedule: Schedule = serde_json::from_value(case["schedule"].clone()).unwrap();
        schedule.check().unwrap();
        let factors: Vec<f64> = numbers(&case["factors"]);
        assert_eq!(factors.len(), 60);
        for (update, wanted) in factors.iter().enumerate() {
            let got = schedule.factor(update as u64);
            assert!((got - wanted).abs() < 1e-12, "{schedule:?}, update {update}: {got} {wanted}");
        }
    }
}
