//! The convolution as a layer of a network.

use super::Conv2d;
use crate::layer::{Backward, Forward, Layer, Parameter, Uses};
use crate::{Element, Shape};

impl<E: Element> Layer<E> for Conv2d {
    fn kind(&self) -> &'static str {
        "conv2d"
    }

    fn output(&self) -> Shape {
        self.output()
    }

    fn parameters(&self) -> Vec<Parameter> {
        let [filters, channels] = [self.config.filters, self.group_inputs()];
        let [kh, kw] = self.config.kernel;
        let fans = [channels * kh * kw, self.group_filters() * kh * kw];
        let mut parameters = vec![Parameter::weight(&[filters, channels, kh, kw], fans)];
        if self.config.bias {
            parameters.push(Parameter::bias(filters, fans));
        }
        parameters
    }

    fn uses(&self) -> Uses {
        Uses { x: true, y: false }
    }

    fn scratch_len(&self, samples: usize) -> usize {
        self.scratch_len::<E>(samples)
    }

    fn packed_len(&self) -> usize {
        self.packed_len::<E>()
    }

    fn pack(&self, parameters: &[&[E]], packed: &mut [E]) {
        self.pack(parameters[0], packed);
    }

    fn fuses_relu(&self) -> bool {
        true
    }

    fn flops(&self) -> u64 {
        self.flops()
    }

    fn forward(&self, io: Forward<'_, E>) {
        let bias = io.parameters.get(1).copied().unwrap_or_default();
        self.forward(io.x[0], io.packed, bias, io.relu, io.y, io.scratch);
    }

    fn backward(&self, io: Backward<'_, '_, E>) {
        let (dweights, dbias) = io.dparameters.split_first_mut().expect("conv2d: gradients");
        let dbias = dbias.first_mut().map_or(&mut [][..], |dbias| dbias);
        let gradients = [&mut *io.dx[0], &mut **dweights, dbias];
        self.backward([io.x[0], io.dy, io.packed], gradients, io.scratch);
    }
}
