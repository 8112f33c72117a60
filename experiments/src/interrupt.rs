//! Ctrl-C and termination signals: asked for between batches, never acted upon in the middle.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// From now on a signal to stop only sets the flag that [`requested`] reads.
///
/// # Errors
/// When the system refuses the handler.
pub fn install() -> Result<(), Failure> {
    ctrlc::set_handler(|| REQUESTED.store(true, Ordering::Relaxed))
        .map_err(|error| Failure::failed(format_args!("cannot handle Ctrl-C: {error}")))
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
