//! One bound in bytes for the slots of any number of loaders.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::error::ProducersError;

/// How many bytes the slots of all producers that share it may take together.
///
/// Bytes are counted from when a slot's memory is had until it is given back, also for memory
/// that a hung thread still holds or that is in a batch which outlives its producers.
///
/// ```
/// use millrace_loader::producers::Budget;
///
/// let both = Budget::new(100 << 20); // for two loaders that must not take more together
/// assert_eq!(both.used(), 0);
/// ```
#[derive(Clone, Debug)]
pub struct Budget(Arc<Mutex<Account>>);

#[derive(Debug)]
struct Account {
    limit: usize,
    used: usize,
}

static OF_PROCESS: LazyLock<Budget> = LazyLock::new(|| Budget::new(usize::MAX));

impl Budget {
    /// A budget of its own.
    pub fn new(bytes: usize) -> Self {
        Budget(Arc::new(Mutex::new(Account { limit: bytes, used: 0 })))
    }

    /// The budget of this process, which is used where no other is named; without a bound until
    /// [`Budget::set_limit`] gives it one.
    pub fn of_process() -> Self {
        OF_PROCESS.clone()
    }

    /// Changes the bound, for what is asked for from now on.
    pub fn set_limit(&self, bytes: usize) {
        self.lock().limit = bytes;
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.lock().used
    }

    /// Takes `bytes`, until the result is dropped.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Reservation, ProducersError> {
        let mut account = self.lock();
        match account.used.checked_add(bytes) {
            Some(sum) if sum <= account.limit => account.used = sum,
            _ => {
                return Err(ProducersError::Budget {
                    asked: bytes,
                    used: account.used,
                    limit: account.limit,
                });
            }
        }
        drop(account);
        Ok(Reservation { budget: self.clone(), bytes })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Account> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes of a budget that are in use.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Budget,
    bytes: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.lock().used -= self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(100);
        let sixty = budget.reserve(60).unwrap();
        let refused = budget.reserve(41).unwrap_err().to_string();
        assert!(refused.contains("41 bytes") && refused.contains("60 of 100"), "{refused}");
        assert!(budget.reserve(usize::MAX).is_err());
        let forty = budget.reserve(40).unwrap();
        assert_eq!(budget.used(), 100);
        drop(sixty);
        budget.set_limit(50);
        assert!(budget.reserve(11).is_err() && budget.reserve(10).is_ok());
        drop(forty);
        assert_eq!(budget.used(), 0);
    }
}
