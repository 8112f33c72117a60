//! Vectors of an element, whatever the unit.

use bytemuck::Pod;
use pulp::Simd;

/// What a kernel does with a vector of values. The methods forward to those that [`Simd`] has for
/// each number type.
///
/// The trait is public only because [`Element`](crate::Element) needs it; it cannot be named.
pub trait Lanes: Pod {
    /// The values in one register of the unit.
    type Vector<S: Simd>: Pod;

    /// Values in one register.
    #[inline(always)]
    fn lanes<S: Simd>() -> usize {
        size_of::<Self::Vector<S>>() / size_of::<Self>()
    }

    /// `value` in each lane.
    fn splat<S: Simd>(simd: S, value: Self) -> Self::Vector<S>;

    /// `a * b + c`, rounded once where the unit can do that, else twice.
    fn add_product<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;

    /// `a + b`.
    fn sum<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;

    /// 0 where `a` is below 0, else `a`, which keeps what is not a number.
    fn rectified<S: Simd>(simd: S, a: Self::Vector<S>) -> Self::Vector<S>;

    /// The sum of all lanes, in an order that depends on their number alone.
    fn sum_of_lanes<S: Simd>(simd: S, a: Self::Vector<S>) -> Self;

    /// The whole vectors at the front of `values`, and the rest.
    fn vectors<S: Simd>(values: &[Self]) -> (&[Self::Vector<S>], &[Self]);

    /// As [`vectors`](Self::vectors).
    fn vectors_mut<S: Simd>(values: &mut [Self]) -> (&mut [Self::Vector<S>], &mut [Self]);

    /// The values of a slice that is no longer than a vector; 0 in the other lanes.
    fn load_part<S: Simd>(simd: S, values: &[Self]) -> Self::Vector<S>;

    /// Overwrites a slice that is no longer than a vector by the first lanes.
    fn store_part<S: Simd>(simd: S, values: &mut [Self], vector: Self::Vector<S>);

    /// The first values of `values`, which holds a vector at least.
    #[inline(always)]
    fn load<S: Simd>(values: &[Self]) -> Self::Vector<S> {
        Self::vectors::<S>(&values[..Self::lanes::<S>()]).0[0]
    }

    /// Overwrites the first values of `values`, which holds a vector at least.
    #[inline(always)]
    fn store<S: Simd>(values: &mut [Self], vector: Self::Vector<S>) {
        Self::vectors_mut::<S>(&mut values[..Self::lanes::<S>()]).0[0] = vector;
    }
}

macro_rules! lanes {
    ($element:ident, $vector:ident, $splat:ident, $mul_add:ident, $add:ident, $less:ident,
     $select:ident, $reduce:ident, $split:ident, $split_mut:ident, $load:ident, $store:ident) => {
        impl Lanes for $element {
            type Vector<S: Simd> = S::$vector;

            #[inline(always)]
            fn splat<S: Simd>(simd: S, value: Self) -> S::$vector {
                simd.$splat(value)
            }

            #[inline(always)]
            fn add_product<S: Simd>(
                simd: S,
                a: S::$vector,
                b: S::$vector,
                c: S::$vector,
            ) -> S::$vector {
                simd.$mul_add(a, b, c)
            }

            #[inline(always)]
            fn sum<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }

            #[inline(always)]
            fn rectified<S: Simd>(simd: S, a: S::$vector) -> S::$vector {
                let zero = simd.$splat(0.0);
                simd.$select(simd.$less(a, zero), zero, a)
            }

            #[inline(always)]
            fn sum_of_lanes<S: Simd>(simd: S, a: S::$vector) -> Self {
                simd.$reduce(a)
            }

            #[inline(always)]
            fn vectors<S: Simd>(values: &[Self]) -> (&[S::$vector], &[Self]) {
                S::$split(values)
            }

            #[inline(always)]
            fn vectors_mut<S: Simd>(values: &mut [Self]) -> (&mut [S::$vector], &mut [Self]) {
                S::$split_mut(values)
            }

            #[inline(always)]
            fn load_part<S: Simd>(simd: S, values: &[Self]) -> S::$vector {
                simd.$load(values)
            }

            #[inline(always)]
            fn store_part<S: Simd>(simd: S, values: &mut [Self], vector: S::$vector) {
                simd.$store(values, vector);
            }
        }
    };
}

lanes!(
    f32,
    f32s,
    splat_f32s,
    mul_add_e_f32s,
    add_f32s,
    less_than_f32s,
    select_f32s,
    reduce_sum_f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    partial_load_f32s,
    partial_store_f32s
);
lanes!(
    f64,
    f64s,
    splat_f64s,
    mul_add_e_f64s,
    add_f64s,
    less_than_f64s,
    select_f64s,
    reduce_sum_f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    partial_load_f64s,
    partial_store_f64s
);
