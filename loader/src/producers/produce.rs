//! Making one sample, whatever comes of it.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::claim::Claim;
use super::layout::Layout;
use super::slot::SampleMut;

/// What becomes of making a sample: nothing but what was written, or why it cannot be made. The
/// error should name the file that the sample comes from.
pub type Made = Result<(), Box<dyn Error + Send + Sync>>;

/// What makes samples, on any thread.
pub(crate) type Make = dyn Fn(&Claim, &mut SampleMut<'_>) -> Made + Send + Sync;

/// Makes the sample of a claim in a slot's bytes; what goes wrong, a panic among it, comes as one text.
pub(crate) fn produce(
    make: &Make,
    layout: &Layout,
    claim: &Claim,
    slot: &mut [u8],
    beat: &dyn Fn(),
) -> Result<(), String> {
    let mut sample = SampleMut::new(layout, slot, beat);
    // Whatever state the producer is left in is its own; the slot is only bytes.
    match catch_unwind(AssertUnwindSafe(|| make(claim, &mut sample))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(chain(&*error)),
        Err(payload) => Err(format!("the producer panicked: {}", panic_text(&*payload))),
    }
}

/// An error with what caused it.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no text")
}
