//! Numbers of names by the address of the string: faster than by its text.

use rustc_hash::FxHashMap;

use super::Recorder;

/// The names that one thread, or the holder of one lock, has seen.
#[derive(Debug, Default)]
pub(crate) struct NameCache(FxHashMap<(usize, usize), u32>);

impl NameCache {
    /// The number of `name`.
    #[inline]
    pub(crate) fn number(&mut self, recorder: &Recorder, name: &'static str) -> u32 {
        // A static string is the same name wherever it is found at the same address.
        let key = (name.as_ptr() as usize, name.len());
        match self.0.get(&key) {
            Some(number) => *number,
            None => self.learn(key, recorder, name),
        }
    }

    #[cold]
    fn learn(&mut self, key: (usize, usize), recorder: &Recorder, name: &str) -> u32 {
        *self.0.entry(key).or_insert_with(|| recorder.intern(name))
    }
}
