//! The vector unit that kernels run on.

use pulp::{Arch, Simd, WithSimd};

use super::Lanes;

/// A vector unit of this processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit(Arch);

impl Unit {
    /// The widest unit of this processor: the same for the whole life of the process.
    pub(crate) fn best() -> Self {
        Self(Arch::new())
    }

    /// The unit for vectors of which only the first `used` values of type `E` count. Half as wide
    /// does the same work in half the time where the other half would be idle.
    pub(crate) fn narrowed<E: Lanes>(self, used: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Arch::V4(unit) = self.0
            && used * 2 <= self.lanes::<E>()
        {
            return Self(Arch::V3(*unit));
        }
        let _ = used;
        self
    }

    /// Values of type `E` in one vector.
    pub(crate) fn lanes<E: Lanes>(self) -> usize {
        self.run(Count::<E>(std::marker::PhantomData))
    }

    /// Runs `kernel` on this unit. What it calls has to be `#[inline(always)]`, or it is compiled
    /// for the unit that every processor of the target has.
    #[inline]
    pub(crate) fn run<K: WithSimd>(self, kernel: K) -> K::Output {
        self.0.dispatch(kernel)
    }

    /// Every unit of this processor, for tests.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut all = vec![Self(Arch::Scalar)];
        #[cfg(target_arch = "x86_64")]
        {
            all.extend(pulp::x86::V3::try_new().map(|unit| Self(Arch::V3(unit))));
            all.extend(pulp::x86::V4::try_new().map(|unit| Self(Arch::V4(unit))));
        }
        #[cfg(target_arch = "aarch64")]
        all.push(Self::best());
        all
    }
}

struct Count<E>(std::marker::PhantomData<E>);

impl<E: Lanes> WithSimd for Count<E> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        E::lanes::<S>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_unit_is_among_all_and_the_widest() {
        let widest = Unit::all().into_iter().map(|unit| unit.lanes::<f32>()).max();
        assert_eq!(widest, Some(Unit::best().lanes::<f32>()));
    }

    #[test]
    fn a_narrowed_unit_still_holds_what_is_used() {
        for unit in Unit::all() {
            let lanes = unit.lanes::<f32>();
            for used in 1..=lanes {
                let narrowed = unit.narrowed::<f32>(used).lanes::<f32>();
                assert!((used..=lanes).contains(&narrowed), "{unit:?}: {used} of {narrowed}");
            }
            assert_eq!(unit.narrowed::<f32>(lanes).lanes::<f32>(), lanes);
        }
    }
}
