//! Delays at every scheduling point, for `--cfg millrace_delays`: before each operation on the
//! words that threads race on, each fence, each lock and each sleep.
//!
//! A race that needs one thread to stand still between two operations while others do much is
//! seldom seen where nothing stands still. Here each thread now and then lets others run, spins,
//! or sleeps, at places that a generator of its own chooses. Nothing else changes; without the
//! flag none of this is compiled.

use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::atomic::{self, AtomicU64 as Seeds, Ordering};
use std::thread;
use std::time::Duration;

/// One operation in so many is delayed, on average.
const SELDOM: u64 = 64;

thread_local! {
    static STATE: Cell<u64> = Cell::new(seed());
}

/// Each thread has another sequence of delays; so has each process.
fn seed() -> u64 {
    static THREADS: Seeds = Seeds::new(1);
    let number = THREADS.fetch_add(1, Ordering::Relaxed) + (u64::from(std::process::id()) << 32);
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// A place where a thread may stand still.
pub(crate) fn point() {
    // A thread that ends has no generator any more, and no delays.
    let Ok(number) = STATE.try_with(|state| {
        let mut number = state.get();
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        state.set(number);
        number.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }) else {
        return;
    };
    if !number.is_multiple_of(SELDOM) {
        return;
    }
    match number / SELDOM % 64 {
        // The length of some tasks, or of many.
        0 => thread::sleep(Duration::from_micros(1 + number % 200)),
        1..32 => (0..number % 2000).for_each(|_| spin_loop()),
        _ => thread::yield_now(),
    }
}

pub(crate) fn fence(order: Ordering) {
    point();
    atomic::fence(order);
}

pub(crate) fn park() {
    point();
    thread::park();
}

/// An atomic of the standard library whose operations are scheduling points.
macro_rules! delayed {
    ($name:ident, $value:ty) => {
        #[derive(Debug, Default)]
        pub(crate) struct $name(atomic::$name);

        #[allow(dead_code, reason = "not every operation is used on words of every length")]
        impl $name {
            pub(crate) const fn new(value: $value) -> Self {
                $name(atomic::$name::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            delayed!($value: swap fetch_add fetch_sub fetch_or fetch_and);

            pub(crate) fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// Fails for no reason at times, as it may.
            pub(crate) fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange_weak(current, new, success, failure)
            }
        }
    };
    ($value:ty: $($operation:ident)*) => {
        $(
            pub(crate) fn $operation(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.$operation(value, order)
            }
        )*
    };
}

delayed!(AtomicU32, u32);
delayed!(AtomicU64, u64);
