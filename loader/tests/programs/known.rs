//! Samples whose content is known.

use millrace_loader::producers::{Claim, Made, SampleMut};

/// Writes what follows from the claim alone.
pub(crate) fn fill(claim: &Claim, sample: &mut SampleMut<'_>) -> Made {
    let values = [claim.epoch as f32, claim.index as f32, (claim.seed >> 40) as f32];
    sample.field::<f32>(0).copy_from_slice(&values);
    sample.field::<u8>(1)[0] = claim.index as u8;
    Ok(())
}
