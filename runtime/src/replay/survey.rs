//! What a replay under way tells about itself, for reports.

use super::instance::Instance;
use crate::sync::Ordering;
use crate::task::Meta;

impl Instance {
    /// Slots and facts of its tasks, with the submission lock held; none if it is idle. Single
    /// tasks may have ended: only their number is known.
    pub(crate) fn unfinished_tasks(&self) -> impl Iterator<Item = (u32, Meta)> + '_ {
        let tasks = if self.is_busy() { &self.plan.tasks[..] } else { &[] };
        tasks.iter().zip(&self.slots).zip(0..).map(|((task, slot), sequence)| {
            let (name, location, label) = (task.name, task.location, task.label);
            (*slot, self.complete(Meta { name, location, label, sequence }))
        })
    }

    /// Tasks that have not been counted as ended.
    pub(crate) fn remaining(&self) -> u64 {
        u64::from(self.remaining.load(Ordering::Relaxed))
    }

    /// The batch of the replay.
    pub(crate) fn batch(&self) -> Option<u32> {
        self.label(crate::task::Label::default()).batch
    }
}
