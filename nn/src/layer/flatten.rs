//! An image as a row of features.

use crate::{NnError, Shape};

/// The shape of an image whose values are taken as features, in the order (channel, row, column) in
/// which they are stored: nothing has to be computed or moved. `name` is used in errors.
///
/// ```
/// use millrace_nn::{Shape, layer};
/// let shape = layer::flatten("3 (flatten)", Shape::image(4, 13, 13))?;
/// assert_eq!(shape, Shape::Features(676));
/// # Ok::<(), millrace_nn::NnError>(())
/// ```
///
/// # Errors
/// [`NnError::Shape`] when the shape is empty or too large.
pub fn flatten(name: &str, input: Shape) -> Result<Shape, NnError> {
    if input.is_empty() {
        return Err(NnError::shape(name, input, "at least one value"));
    }
    input.check_size(name)?;
    Ok(Shape::Features(input.len()))
}
