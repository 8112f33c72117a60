//! Colours: greens for task kinds, reds for idle workers, blues and violets for waits.
//!
//! Shades are given in OKLCH, where equal steps of lightness look equal. Neighbours in a lane
//! differ in lightness, which every kind of colour vision keeps; the greens lean to blue, which
//! separates them from the reds for the common kinds of colour blindness.

use std::collections::HashMap;

use millrace_runtime::trace::{Cause, SpanKind, Trace};
use plotters::style::RGBColor;

use crate::Theme;
use crate::segment::Activity;

/// A shade: lightness (0 to 1), chroma, hue in degrees.
type Shade = (f32, f32, f32);

/// Shades of task kinds. The first ones belong to the kinds that [`preferred`] knows.
const GREENS: [Shade; 18] = [
    (0.68, 0.170, 149.0), // convolution forward
    (0.47, 0.115, 155.0), // convolution backward
    (0.93, 0.090, 150.0), // activation forward
    (0.82, 0.160, 140.0), // activation backward
    (0.87, 0.085, 178.0), // pooling forward
    (0.71, 0.100, 180.0), // pooling backward
    (0.60, 0.100, 180.0), // dense forward
    (0.38, 0.065, 178.0), // dense backward
    (0.79, 0.135, 184.0), // loading
    (0.63, 0.130, 134.0), // parameter update
    (0.29, 0.070, 150.0), // loss
    (0.88, 0.180, 128.0), // gradient reduction
    (0.54, 0.130, 150.0), // reshaping
    (0.52, 0.080, 195.0),
    (0.76, 0.060, 160.0),
    (0.43, 0.120, 134.0),
    (0.65, 0.060, 147.0),
    (0.73, 0.190, 136.0),
];
/// The shade of task kinds for which no other is left.
const OTHER: Shade = (0.82, 0.03, 160.0);

/// Indices into the entries of a [`Palette`]: [`GREENS`], the rest of the tasks, then causes.
const OTHER_TASKS: u8 = GREENS.len() as u8;
const IDLE: u8 = OTHER_TASKS + 1;
const WAIT: u8 = IDLE + Cause::ALL.len() as u8 + 1;
/// Number of different keys.
pub(crate) const KEYS: usize = WAIT as usize + Cause::ALL.len() + 1;

/// What a piece of a lane shows; its colour and its place in legends and stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) u8);

/// The colour of tasks of any kind.
pub(crate) const BUSY: Key = Key(0);

/// The rows of a legend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Tasks,
    Idle,
    Waits,
}

impl Key {
    pub(crate) fn idle(cause: Cause) -> Self {
        Key(IDLE + cause as u8)
    }

    pub(crate) fn wait(cause: Cause) -> Self {
        Key(WAIT + cause as u8)
    }

    pub(crate) fn group(self) -> Group {
        match self.0 {
            WAIT.. => Group::Waits,
            IDLE.. => Group::Idle,
            _ => Group::Tasks,
        }
    }

    pub(crate) fn is_task(self) -> bool {
        self.group() == Group::Tasks
    }

    pub(crate) fn colour(self, theme: Theme) -> RGBColor {
        let shade = match self.0 {
            code @ WAIT.. => wait_shade(code - WAIT),
            code @ IDLE.. => idle_shade(code - IDLE),
            OTHER_TASKS => OTHER,
            slot => GREENS[usize::from(slot)],
        };
        rgb(if theme == Theme::Dark { on_dark(shade) } else { shade })
    }
}

/// The same shade for a dark page, from which the darkest ones must stand out.
fn on_dark((lightness, chroma, hue): Shade) -> Shade {
    (0.45 + (lightness - 0.29) * 0.77, chroma, hue)
}

fn idle_shade(cause: u8) -> Shade {
    match Cause::ALL.into_iter().find(|&c| c as u8 == cause) {
        Some(Cause::Barrier) => (0.57, 0.225, 27.0),
        Some(Cause::Loader) => (0.70, 0.180, 45.0),
        Some(Cause::Window) => (0.46, 0.170, 20.0),
        Some(Cause::Memory) => (0.54, 0.160, 5.0),
        Some(Cause::Acquire) => (0.66, 0.170, 12.0),
        Some(Cause::Drain) => (0.38, 0.140, 25.0),
        Some(Cause::MainBusy) => (0.85, 0.085, 20.0),
        _ => (0.77, 0.130, 22.0),
    }
}

fn wait_shade(cause: u8) -> Shade {
    match Cause::ALL.into_iter().find(|&c| c as u8 == cause) {
        Some(Cause::Barrier) => (0.47, 0.210, 288.0),
        Some(Cause::Loader) => (0.62, 0.160, 255.0),
        Some(Cause::Window) => (0.80, 0.090, 275.0),
        Some(Cause::Memory) => (0.73, 0.120, 280.0),
        Some(Cause::Acquire) => (0.67, 0.150, 305.0),
        Some(Cause::Drain) => (0.38, 0.110, 265.0),
        Some(Cause::MainBusy) => (0.93, 0.025, 265.0),
        _ => (0.86, 0.050, 265.0),
    }
}

/// The task kinds of one or more traces, each with a key.
#[derive(Clone, Debug)]
pub(crate) struct Palette {
    keys: HashMap<String, Key>,
    /// Task kinds by key; empty where no kind has it.
    labels: [String; GREENS.len()],
}

impl Palette {
    /// Gives every task kind of the traces a shade of its own, while there are any left. A
    /// known kind has the same shade in every figure.
    pub(crate) fn new(traces: &[&Trace]) -> Self {
        let mut palette = Palette { keys: HashMap::new(), labels: Default::default() };
        let mut kinds = Vec::new();
        for trace in traces {
            let mut used = vec![false; trace.names.len()];
            for span in trace.spans.iter().filter(|span| span.kind == SpanKind::Task) {
                used[span.name as usize] = true;
            }
            kinds.extend(trace.names.iter().zip(used).filter(|(_, used)| *used).map(|(n, _)| n));
        }
        let (known, unknown): (Vec<&String>, Vec<_>) =
            kinds.into_iter().partition(|kind| preferred(kind).is_some());
        for kind in [known, unknown].into_iter().flatten() {
            palette.add(kind);
        }
        palette
    }

    fn add(&mut self, kind: &str) {
        if self.keys.contains_key(kind) {
            return;
        }
        let free = |slot: &usize| self.labels[*slot].is_empty();
        let wanted = preferred(kind).filter(free);
        // From the end, where no known kind has its place.
        let slot = wanted.or_else(|| (0..GREENS.len()).rev().find(free));
        let key = slot.map_or(Key(OTHER_TASKS), |slot| Key(slot as u8));
        if let Some(slot) = slot {
            // A kind may have no name at all; its slot is taken nevertheless.
            self.labels[slot] = if kind.is_empty() { "(unnamed)" } else { kind }.to_owned();
        }
        self.keys.insert(kind.to_owned(), key);
    }

    /// The key of what a lane of `trace` does in a span of the given name.
    pub(crate) fn key_of(&self, trace: &Trace, activity: Activity, name: u32) -> Key {
        match activity {
            Activity::Idle(cause) => Key::idle(cause),
            Activity::Wait(cause) => Key::wait(cause),
            Activity::Task => {
                let name = &trace.names[name as usize];
                self.keys.get(name).copied().unwrap_or(Key(OTHER_TASKS))
            }
        }
    }

    /// The words of a legend for a key.
    pub(crate) fn label(&self, key: Key) -> &str {
        let base = match key.group() {
            Group::Tasks if key.0 == OTHER_TASKS => return "other tasks",
            Group::Tasks => return &self.labels[usize::from(key.0)],
            Group::Idle => IDLE,
            Group::Waits => WAIT,
        };
        let cause = Cause::ALL.into_iter().find(|&cause| cause as u8 == key.0 - base);
        cause_label(cause.unwrap_or_default())
    }
}

/// The words for a cause, also where a trace gives none.
pub(crate) fn cause_label(cause: Cause) -> &'static str {
    if cause == Cause::None { "no cause given" } else { cause.label() }
}

/// The shade that a kind has in every figure, if its name is of a known form.
fn preferred(kind: &str) -> Option<usize> {
    const KNOWN: [(&[&str], usize, usize); 8] = [
        (&["conv"], 0, 1),
        (&["relu", "tanh", "sigmoid", "gelu"], 2, 3),
        (&["maxpool", "max_pool", "avgpool", "pool"], 4, 5),
        (&["dense", "linear", "fc"], 6, 7),
        (&["load", "decode"], 8, 8),
        (&["sgd", "adam", "update", "optimi"], 9, 9),
        (&["softmax", "loss", "cross"], 10, 10),
        (&["reduce", "sum"], 11, 11),
    ];
    let lower = kind.to_ascii_lowercase();
    let matches = |stems: &[&str]| stems.iter().any(|stem| lower.starts_with(stem));
    if lower.ends_with(".reduce") {
        return Some(11);
    }
    let &(_, forward, backward) = KNOWN.iter().find(|(stems, ..)| matches(stems))?;
    Some(if lower.contains("backward") { backward } else { forward })
}

/// OKLCH to sRGB (Ottosson 2020), clamped to what screens show.
fn rgb((lightness, chroma, hue): Shade) -> RGBColor {
    let (sin, cos) = hue.to_radians().sin_cos();
    let (a, b) = (chroma * cos, chroma * sin);
    let l = (lightness + 0.396_337_78 * a + 0.215_803_76 * b).powi(3);
    let m = (lightness - 0.105_561_346 * a - 0.063_854_17 * b).powi(3);
    let s = (lightness - 0.089_484_18 * a - 1.291_485_5 * b).powi(3);
    let channel = |linear: f32| {
        let linear = linear.clamp(0.0, 1.0);
        let coded = if linear <= 0.003_130_8 {
            12.92 * linear
        } else {
            1.055 * linear.powf(1.0 / 2.4) - 0.055
        };
        (coded * 255.0).round() as u8
    };
    RGBColor(
        channel(4.076_741_7 * l - 3.307_711_6 * m + 0.230_969_94 * s),
        channel(-1.268_438 * l + 2.609_757_4 * m - 0.341_319_38 * s),
        channel(-0.004_196_086 * l - 0.703_418_6 * m + 1.707_614_7 * s),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance in OKLab; about 0.02 is the least that an eye tells apart side by side.
    fn distance(a: Shade, b: Shade) -> f32 {
        let point = |(l, c, h): Shade| [l, c * h.to_radians().cos(), c * h.to_radians().sin()];
        let square: f32 = point(a).iter().zip(point(b)).map(|(a, b)| (a - b).powi(2)).sum();
        square.sqrt()
    }

    fn causes(shade: fn(u8) -> Shade) -> Vec<Shade> {
        Cause::ALL.iter().map(|&cause| shade(cause as u8)).collect()
    }

    #[test]
    fn shades_of_one_group_differ_and_groups_keep_their_hue() {
        let mut greens = GREENS.to_vec();
        greens.push(OTHER);
        for group in [greens.clone(), causes(idle_shade), causes(wait_shade)] {
            for (i, &a) in group.iter().enumerate() {
                for &b in &group[..i] {
                    assert!(distance(a, b) > 0.05, "{a:?} and {b:?}: {}", distance(a, b));
                }
            }
        }
        for theme in [|shade| shade, on_dark] {
            for shade in greens.iter().copied().map(theme) {
                let RGBColor(r, g, b) = rgb(shade);
                let green = g > r && (g >= b || shade.2 > 190.0);
                assert!(green, "{shade:?} is not green: {r} {g} {b}");
            }
            for shade in causes(idle_shade).into_iter().map(theme) {
                let RGBColor(r, g, b) = rgb(shade);
                assert!(r > g.max(b) + 50, "{shade:?} is not red: {r} {g} {b}");
            }
            for shade in causes(wait_shade).into_iter().map(theme) {
                let RGBColor(r, g, b) = rgb(shade);
                assert!(b > r && b > g, "{shade:?} is not blue or violet: {r} {g} {b}");
            }
        }
    }

    #[test]
    fn every_shade_stands_out_from_a_dark_lane() {
        let RGBColor(r, g, b) = Theme::Dark.colour(crate::theme::Tone::Lane);
        let lane = r.max(g).max(b);
        for key in (0..KEYS as u8).map(Key) {
            let RGBColor(r, g, b) = key.colour(Theme::Dark);
            assert!(r.max(g).max(b) > lane + 35, "{key:?}: {r} {g} {b}");
        }
    }

    /// Without the red cones (Vienot 1999: red and green merge into one channel) what is left
    /// must still separate sleep from every task.
    #[test]
    fn sleep_differs_from_tasks_without_red_cones() {
        let seen = |shade| {
            let RGBColor(r, g, b) = rgb(shade);
            let linear = |v: u8| (f32::from(v) / 255.0).powf(2.2);
            let yellow = 0.1124 * linear(r) + 0.8876 * linear(g);
            let blue = 0.004 * (linear(r) - linear(g)) + linear(b);
            [yellow.powf(1.0 / 2.2), blue.max(0.0).powf(1.0 / 2.2)]
        };
        for cause in [Cause::Barrier, Cause::Loader, Cause::NoReadyTask] {
            for green in GREENS {
                let (a, b) = (seen(idle_shade(cause as u8)), seen(green));
                let gap = (a[0] - b[0]).abs().max((a[1] - b[1]).abs());
                assert!(gap > 0.075, "{cause:?} and {green:?}: {gap}");
            }
        }
    }

    #[test]
    fn known_kinds_keep_their_shade_and_the_rest_share_one() {
        assert_eq!(preferred("conv2d.forward"), Some(0));
        assert_eq!(preferred("conv2d.backward"), Some(1));
        assert_eq!(preferred("sgd.update"), Some(9));
        assert_eq!(preferred("dense.reduce"), Some(11));
        assert_eq!(preferred("mystery"), None);
        let mut palette = Palette { keys: HashMap::new(), labels: Default::default() };
        for i in 0..40 {
            palette.add(&format!("kind {i}"));
        }
        assert_eq!(palette.keys["kind 0"], Key(17));
        assert_eq!(palette.keys["kind 39"], Key(OTHER_TASKS));
        assert_eq!(palette.label(Key(17)), "kind 0");
        assert_eq!(palette.label(Key::idle(Cause::Barrier)), "barrier");
    }
}
