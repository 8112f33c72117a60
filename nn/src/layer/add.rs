//! The sum of several values: the way round of a residual block.

use std::sync::Arc;

use super::{Backward, Config, Forward, Layer, Relu};
use crate::kernel::{Kernel, Unit, dispatch};
use crate::{Element, NnError, Shape};

/// An [`Add`], which has no settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddConfig;

impl AddConfig {
    /// The layer for inputs of these shapes. `name` is used in errors.
    ///
    /// # Errors
    /// [`NnError::Inputs`] for less than two inputs; [`NnError::Shape`] when they differ, or are
    /// empty or too large.
    pub fn build(self, name: &str, inputs: &[Shape]) -> Result<Add, NnError> {
        let [first, others @ ..] = inputs else {
            return Err(NnError::inputs(name, 0, "two or more"));
        };
        if others.is_empty() {
            return Err(NnError::inputs(name, 1, "two or more"));
        }
        first.check_values(name)?;
        match others.iter().find(|other| *other != first) {
            Some(&other) => {
                Err(NnError::shape(name, other, format!("{first}, as the first input")))
            }
            None => Ok(Add { shape: *first }),
        }
    }
}

impl Config for AddConfig {
    fn kind(&self) -> &'static str {
        "add"
    }

    fn build_layer(&self, name: &str, inputs: &[Shape]) -> Result<Arc<dyn Layer<f32>>, NnError> {
        Ok(Arc::new(self.build(name, inputs)?))
    }
}

/// The sum of two or more inputs of one shape, value by value, added up in their order.
#[derive(Clone, Copy, Debug)]
pub struct Add {
    shape: Shape,
}

impl<E: Element> Layer<E> for Add {
    fn kind(&self) -> &'static str {
        "add"
    }

    fn output(&self) -> Shape {
        self.shape
    }

    fn fuses_relu(&self) -> bool {
        true
    }

    fn forward(&self, io: Forward<'_, E>) {
        let [first, second, others @ ..] = io.x else { panic!("add: two inputs or more") };
        dispatch(Sum { x: [first, second], relu: io.relu && others.is_empty(), y: io.y });
        for other in others {
            io.y.iter_mut().zip(*other).for_each(|(sum, &value)| *sum += value);
        }
        if io.relu && !others.is_empty() {
            Relu::new(self.shape).forward(io.y);
        }
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        io.dx.iter_mut().filter(|dx| !dx.is_empty()).for_each(|dx| dx.copy_from_slice(io.dy));
    }
}

struct Sum<'a, E> {
    x: [&'a [E]; 2],
    relu: bool,
    y: &'a mut [E],
}

impl<E: Element> Kernel for Sum<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<U: Unit>(self) {
        let Self { x: [first, second], relu, y } = self;
        for ((y, &first), &second) in y.iter_mut().zip(first).zip(second) {
            let sum = first + second;
            *y = if relu { Relu::of(sum) } else { sum };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{check_gradients, numbers};
    use crate::layer::{Alone, Mode};

    #[test]
    fn gradients_match_finite_differences() {
        for inputs in 2..5 {
            let shapes = vec![Shape::image(3, 2, 5); inputs];
            check_gradients(Arc::new(AddConfig.build("add", &shapes).unwrap()), &shapes, 2);
        }
    }

    #[test]
    fn a_relu_may_be_put_on_the_sum() {
        for inputs in 2..4 {
            let shapes = vec![Shape::Features(9); inputs];
            let x: Vec<Vec<f64>> = (0..inputs).map(|i| numbers(18, i as u8)).collect();
            let x: Vec<&[f64]> = x.iter().map(Vec::as_slice).collect();
            let add = Arc::new(AddConfig.build("add", &shapes).unwrap());
            let mut wanted = Alone::new(add.clone(), &shapes, vec![]).forward(Mode::Evaluate, &x);
            assert_eq!(wanted[3], x.iter().map(|x| x[3]).sum::<f64>());
            Relu::new(shapes[0]).forward(&mut wanted);
            let got = Alone::new(add, &shapes, vec![]).relu().forward(Mode::Evaluate, &x);
            assert_eq!(got, wanted);
        }
    }

    #[test]
    fn errors_name_layer_shape_and_need() {
        let message = |shapes: &[Shape]| AddConfig.build("add1", shapes).unwrap_err().to_string();
        let (image, other) = (Shape::image(3, 2, 5), Shape::image(3, 5, 2));
        assert_eq!(
            message(&[image, image, other]),
            "layer add1: got shape 3x5x2, wanted 3x2x5, as the first input"
        );
        assert_eq!(message(&[image]), "layer add1: got 1 inputs, wanted two or more");
        assert_eq!(message(&[]), "layer add1: got 0 inputs, wanted two or more");
    }
}
