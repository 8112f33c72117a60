//! Room to work in for several threads.

use std::sync::{Mutex, PoisonError};

/// Things that threads take to work with and give back, so that there are never more of them than
/// threads that worked at once.
#[derive(Debug)]
pub(crate) struct Pool<T>(Mutex<Vec<T>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Pool(Mutex::default())
    }
}

impl<T> Pool<T> {
    /// Calls `work` with a thing that nobody else has, a new one if all are in use. If `work`
    /// panics, the thing is not used again.
    pub(crate) fn with<R>(&self, make: impl FnOnce() -> T, work: impl FnOnce(&mut T) -> R) -> R {
        let free = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut thing = free.unwrap_or_else(make);
        let result = work(&mut thing);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(thing);
        result
    }
}
