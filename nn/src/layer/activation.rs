//! Functions of single values, beside the rectified linear unit.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};
use std::sync::Arc;

use num_traits::Float;

use super::{Backward, Config, Forward, Layer, Uses, one_input};
use crate::{Element, NnError, Shape};

/// A function that is applied to each value by itself: the settings of an [`Activate`].
///
/// ```
/// use millrace_nn::layer::{Activation, Alone, Config, Mode};
/// use millrace_nn::Shape;
///
/// let shape = Shape::Features(3);
/// let layer = Activation::LeakyRelu { slope: 0.25 }.build_layer("act", &[shape])?;
/// let mut leaky = Alone::new(layer, &[shape], Vec::new());
/// assert_eq!(leaky.forward(Mode::Evaluate, &[&[-2.0, 0.0, 3.0]]), [-0.5, 0.0, 3.0]);
/// assert_eq!(leaky.backward(&[1.0, 1.0, 1.0]).x, [[0.25, 0.25, 1.0]]);
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Activation {
    /// `x` above 0, `slope * x` elsewhere.
    LeakyRelu {
        /// Slope at and below 0, finite and not negative.
        slope: f64,
    },
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `x` times the share of a normal distribution that is below `x`, by the error function.
    Gelu,
    /// The same, approximated by a hyperbolic tangent.
    GeluTanh,
}

impl Activation {
    /// The layer for samples of shape `input`. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Shape`] when `input` has no values or too many; [`NnError::Setting`] when the
    /// slope is negative or not finite.
    pub fn build(self, name: &str, input: Shape) -> Result<Activate, NnError> {
        input.check_values(name)?;
        match self {
            Self::LeakyRelu { slope } if !(slope.is_finite() && slope >= 0.0) => {
                Err(NnError::setting(name, "slope", slope, "a finite number not below 0"))
            }
            _ => Ok(Activate { activation: self, shape: input }),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::LeakyRelu { .. } => "leaky_relu",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
            Self::Gelu => "gelu",
            Self::GeluTanh => "gelu_tanh",
        }
    }

    /// Whether the slope follows from the output, so that nobody needs the input afterwards.
    const fn knows_slope_by_output(self) -> bool {
        !matches!(self, Self::Gelu | Self::GeluTanh)
    }
}

impl Config for Activation {
    fn kind(&self) -> &'static str {
        self.name()
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, one_input(name, inputs)?)?))
    }
}

/// An [`Activation`] for samples of one shape.
///
/// Where the slope follows from the output, it works in place in both directions. The two forms of
/// GELU need their input again; they compute in double precision.
#[derive(Clone, Copy, Debug)]
pub struct Activate {
    activation: Activation,
    shape: Shape,
}

impl<E: Element> Layer<E> for Activate {
    fn kind(&self) -> &'static str {
        self.activation.name()
    }

    fn output(&self) -> Shape {
        self.shape
    }

    fn uses(&self) -> Uses {
        let y = self.activation.knows_slope_by_output();
        Uses { x: !y, y }
    }

    fn in_place(&self) -> bool {
        self.activation.knows_slope_by_output()
    }

    fn forward(&self, io: Forward<'_, E>) {
        match self.activation {
            Activation::LeakyRelu { slope } => {
                let slope = E::narrow(slope);
                let leak = |x: E| if x < E::zero() { slope * x } else { x };
                io.y.iter_mut().for_each(|y| *y = leak(*y));
            }
            Activation::Sigmoid => {
                io.y.iter_mut().for_each(|y| *y = E::one() / (E::one() + Float::exp(-*y)));
            }
            Activation::Tanh => io.y.iter_mut().for_each(|y| *y = Float::tanh(*y)),
            Activation::Gelu => map(io.x[0], io.y, |x| x * below(x)),
            Activation::GeluTanh => map(io.x[0], io.y, |x| 0.5 * x * (1.0 + bend(x).tanh())),
        }
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let dx = &mut *io.dx[0];
        match self.activation {
            Activation::LeakyRelu { slope } => {
                let slope = E::narrow(slope);
                scale(io.y, dx, |y| if y > E::zero() { E::one() } else { slope });
            }
            Activation::Sigmoid => scale(io.y, dx, |y| y * (E::one() - y)),
            Activation::Tanh => scale(io.y, dx, |y| E::one() - y * y),
            Activation::Gelu => chain(io.x[0], io.dy, dx, gelu_slope),
            Activation::GeluTanh => chain(io.x[0], io.dy, dx, gelu_tanh_slope),
        }
    }
}

fn map<E: Element>(x: &[E], y: &mut [E], f: impl Fn(f64) -> f64) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = E::narrow(f(x.widen())));
}

fn scale<E: Element>(y: &[E], gradient: &mut [E], slope: impl Fn(E) -> E) {
    assert_eq!(y.len(), gradient.len(), "activation: length of the gradient");
    gradient.iter_mut().zip(y).for_each(|(gradient, &y)| *gradient *= slope(y));
}

fn chain<E: Element>(x: &[E], dy: &[E], dx: &mut [E], slope: impl Fn(f64) -> f64) {
    // Without a receiver the gradient is empty, and so is the loop.
    for ((dx, dy), x) in dx.iter_mut().zip(dy).zip(x) {
        *dx = E::narrow(dy.widen() * slope(x.widen()));
    }
}

/// The share of a normal distribution below `x`. By the complement, so that it keeps its digits
/// where it is small.
fn below(x: f64) -> f64 {
    0.5 * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// The derivative of `x * below(x)`.
fn gelu_slope(x: f64) -> f64 {
    let density = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2 * (-0.5 * x * x).exp();
    below(x) + x * density
}

/// The square root of 2 over pi.
const STEEPNESS: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
const CUBE: f64 = 0.044_715;

fn bend(x: f64) -> f64 {
    STEEPNESS * (x + CUBE * x * x * x)
}

fn gelu_tanh_slope(x: f64) -> f64 {
    let tanh = bend(x).tanh();
    let bent = STEEPNESS * (1.0 + 3.0 * CUBE * x * x);
    0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * bent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check_gradients;
    use crate::layer::{Alone, Mode};
    use proptest::prelude::*;

    const ALL: [Activation; 5] = [
        Activation::LeakyRelu { slope: 0.01 },
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Gelu,
        Activation::GeluTanh,
    ];

    fn alone(activation: Activation, len: usize) -> Alone<f32> {
        let shape = Shape::Features(len);
        Alone::new(Arc::new(activation.build("act", shape).unwrap()), &[shape], Vec::new())
    }

    #[test]
    fn gradients_match_finite_differences() {
        for activation in ALL {
            for shape in [Shape::image(3, 2, 5), Shape::image(17, 1, 1), Shape::Features(1)] {
                check_gradients(Arc::new(activation.build("act", shape).unwrap()), &[shape], 3);
            }
        }
    }

    #[test]
    fn large_values_saturate_and_not_a_number_passes() {
        for (activation, ends) in [
            (Activation::LeakyRelu { slope: 0.5 }, [-5e3, 1e4]),
            (Activation::Sigmoid, [0.0, 1.0]),
            (Activation::Tanh, [-1.0, 1.0]),
            (Activation::Gelu, [0.0, 1e4]),
            (Activation::GeluTanh, [0.0, 1e4]),
        ] {
            let mut layer = alone(activation, 3);
            let y = layer.forward(Mode::Evaluate, &[&[-1e4, 1e4, f32::NAN]]);
            assert_eq!(y[..2], ends, "{activation:?}");
            assert!(y[2].is_nan(), "{activation:?}");
            let dx = &layer.backward(&[1.0; 3]).x[0];
            assert!(dx[..2].iter().all(|dx| dx.is_finite()), "{activation:?}: {dx:?}");
        }
    }

    #[test]
    fn a_bad_slope_is_an_error() {
        let error = Activation::LeakyRelu { slope: -0.5 }.build("act", Shape::Features(1));
        assert_eq!(
            error.unwrap_err().to_string(),
            "act: slope is -0.5, wanted a finite number not below 0"
        );
    }

    proptest! {
        #[test]
        fn any_slope_is_built_or_refused(slope in proptest::num::f64::ANY) {
            let built = Activation::LeakyRelu { slope }.build("act", Shape::Features(2));
            prop_assert_eq!(built.is_ok(), (0.0..f64::INFINITY).contains(&slope));
        }
    }
}
