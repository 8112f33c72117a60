//! Layers that need the whole batch at once.

/// What a layer does whose result for one sample depends on the other samples of its batch.
///
/// A batch is computed shard by shard, and no shard waits for another but here. In each direction
/// every shard gives a *part*, a few numbers of double precision; the parts are combined to a
/// *total* as a fixed binary tree, whose shape depends on the number of shards alone; then the
/// shards go on, and [`Forward`](super::Forward) and [`Backward`](super::Backward) have the totals
/// ([`Wide`]). When a network is evaluated there are no parts: the layer uses what it has learned
/// ([`Layer::state`](super::Layer::state)).
pub trait BatchWide<E> {
    /// Numbers of a part forward, and of the total.
    fn forward_len(&self) -> usize;

    /// Numbers of a part backward, and of the total.
    fn backward_len(&self) -> usize;

    /// The samples that a batch must have at least.
    fn least_samples(&self) -> usize {
        1
    }

    /// The part of a shard forward, from the values of its input. `part` is overwritten.
    fn forward_part(&self, x: &[E], part: &mut [f64]);

    /// Adds a forward part, or what several were combined to, to another.
    fn combine_forward(&self, into: &mut [f64], from: &[f64]);

    /// The part of a shard backward, from the values of its input, the gradient by its output and
    /// the total of the forward parts. `part` is overwritten.
    fn backward_part(&self, x: &[E], dy: &[E], total: &[f64], part: &mut [f64]);

    /// Adds a backward part, or what several were combined to, to another.
    fn combine_backward(&self, into: &mut [f64], from: &[f64]) {
        into.iter_mut().zip(from).for_each(|(sum, value)| *sum += value);
    }

    /// Learns from a batch: brings the state up to date with the total of its forward parts.
    fn learn(&self, total: &[f64], state: &mut [&mut [E]]);
}

/// What the parts of a batch came to. All is empty for layers that are not [`BatchWide`], and when
/// a network is evaluated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wide<'a> {
    /// The total of the forward parts.
    pub forward: &'a [f64],
    /// The total of the backward parts; only there on the way back.
    pub backward: &'a [f64],
    /// The backward part of this shard; only there on the way back.
    pub part: &'a [f64],
}

/// Which parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    Forward,
    Backward,
}

/// Numbers of a part.
pub(crate) fn part_len<E>(layer: &dyn BatchWide<E>, way: Way) -> usize {
    match way {
        Way::Forward => layer.forward_len(),
        Way::Backward => layer.backward_len(),
    }
}

/// Combines parts of equal length to the first of them, as a binary tree: the first half (of the
/// largest power of two below their number) with the rest, and so on within each.
pub(crate) fn combine<E>(layer: &dyn BatchWide<E>, way: Way, parts: &mut [f64]) {
    let len = part_len(layer, way);
    let mut stride = len;
    while stride < parts.len() {
        for pair in parts.chunks_mut(2 * stride) {
            if let Some((into, from)) = pair.split_at_mut_checked(stride)
                && !from.is_empty()
            {
                match way {
                    Way::Forward => layer.combine_forward(&mut into[..len], &from[..len]),
                    Way::Backward => layer.combine_backward(&mut into[..len], &from[..len]),
                }
            }
        }
        stride *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part is a number of leaves and, in 4 bits each from below, the order of their names.
    struct Order;

    impl BatchWide<f32> for Order {
        fn forward_len(&self) -> usize {
            2
        }

        fn backward_len(&self) -> usize {
            2
        }

        fn forward_part(&self, _: &[f32], _: &mut [f64]) {}

        fn combine_forward(&self, into: &mut [f64], from: &[f64]) {
            // The left side of each node is a full tree, and as large as the right or larger.
            assert!(
                (into[0] as usize).is_power_of_two() && into[0] >= from[0],
                "{into:?} {from:?}"
            );
            into[1] += from[1] * 16f64.powi(into[0] as i32);
            into[0] += from[0];
        }

        fn backward_part(&self, _: &[f32], _: &[f32], _: &[f64], _: &mut [f64]) {}

        fn learn(&self, _: &[f64], _: &mut [&mut [f32]]) {}
    }

    #[test]
    fn parts_are_combined_in_order_as_a_tree() {
        for count in 1..=12u32 {
            let mut parts: Vec<f64> = (0..count).flat_map(|i| [1.0, f64::from(i + 1)]).collect();
            combine(&Order, Way::Forward, &mut parts);
            let wanted: f64 = (0..count).map(|i| f64::from(i + 1) * 16f64.powi(i as i32)).sum();
            assert_eq!(parts[..2], [f64::from(count), wanted]);
            let mut parts: Vec<f64> = (0..count).flat_map(|i| [1.0, f64::from(i)]).collect();
            combine(&Order, Way::Backward, &mut parts);
            assert_eq!(parts[..2], [f64::from(count), f64::from(count * (count - 1) / 2)]);
        }
    }
}
