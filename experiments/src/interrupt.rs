//! Ctrl-C and termination signals: asked for between batches, never acted upon in the middle,
//! unless the user insists with a second one.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, INTERRUPTED};

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// From now on a signal to stop only sets the flag that [`requested`] reads; a second one ends
/// the process at once.
///
/// # Errors
/// When the system refuses the handler.
pub fn install() -> Result<(), Failure> {
    let on_signal = || {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
    };
    ctrlc::set_handler(on_signal)
        .map_err(|error| Failure::failed(format_args!("cannot handle Ctrl-C: {error}")))
}

/// Whether the user asked to stop.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
