//! Replays that follow one another on the same data: nothing can be in their way but the replay
//! before, so that their handles need not be looked at one by one.
//!
//! # Invariant
//! While an instance *covers* the handles that its last replay has crossed, nobody else has used
//! any handle since. When a further replay of that instance is let in uncrossed, their entries keep
//! the names of an earlier one. Whoever looks at entries [uncovers](Submitter::uncover) them before,
//! which gives them the names of the last replay.

use std::sync::Arc;

use super::graph::crossed;
use super::instance::Instance;
use crate::claims::Claim;
use crate::runtime::Inner;
use crate::submit::Submitter;

/// Which instance covers handles, and which.
#[derive(Default)]
pub(crate) struct Cover {
    instance: Option<Arc<Instance>>,
    /// What it is bound to.
    claims: Vec<Claim>,
    /// The replay whose names the entries have.
    crossed: u64,
}

impl Submitter {
    /// Whether a replay of `instance` on the data of `claims`, which has not begun, has to wait for
    /// nobody: the instance covers that data, and its last replay has gone well.
    pub(super) fn follows(&self, instance: &Arc<Instance>, claims: &[Claim]) -> bool {
        let covers = self.cover.instance.as_ref().is_some_and(|it| Arc::ptr_eq(it, instance));
        covers && self.cover.claims == claims && instance.went_well()
    }

    /// The replay of `instance` that has just begun has crossed the handles of `claims`.
    pub(super) fn covered_by(&mut self, instance: &Arc<Instance>, claims: &[Claim]) {
        let cover = &mut self.cover;
        cover.claims.clear();
        cover.claims.extend_from_slice(claims);
        cover.crossed = instance.round();
        cover.instance = Some(instance.clone());
    }

    /// Gives the entries of handles the names of the tasks that have used them last; to be called
    /// before they are looked at or changed.
    #[inline]
    pub(crate) fn uncover(&mut self, inner: &Inner) {
        if self.cover.instance.is_some() {
            self.uncover_all(inner);
        }
    }

    #[cold]
    fn uncover_all(&mut self, inner: &Inner) {
        let Some(instance) = self.cover.instance.take() else { return };
        if instance.round() == self.cover.crossed {
            return;
        }
        for (handle, crossing) in crossed(&instance.plan, &self.cover.claims) {
            let name = |task| instance.name(inner, task);
            self.handles.rename(handle, crossing, name, |task| inner.table.has_ended(task));
        }
    }
}
