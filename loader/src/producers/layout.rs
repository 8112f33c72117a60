//! What a sample looks like in memory: its fields, one behind the other in a slot.

use std::fmt;

use bytemuck::Pod;

/// Fields of a sample at most.
pub const MAX_FIELDS: usize = 16;
/// Axes of a field at most.
pub const MAX_RANK: usize = 8;
/// What each field begins at a multiple of, in bytes.
pub const ALIGNMENT: usize = 64;

/// The type of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    /// Unsigned bytes.
    U8 = 1,
    /// Signed bytes.
    I8 = 2,
    /// Unsigned 16-bit integers.
    U16 = 3,
    /// Signed 16-bit integers.
    I16 = 4,
    /// Unsigned 32-bit integers.
    U32 = 5,
    /// Signed 32-bit integers.
    I32 = 6,
    /// Unsigned 64-bit integers.
    U64 = 7,
    /// Signed 64-bit integers.
    I64 = 8,
    /// 32-bit floating point numbers.
    F32 = 9,
    /// 64-bit floating point numbers.
    F64 = 10,
}

impl DType {
    /// Every type, in order of the numbers that stand for them in a frame.
    pub const ALL: [DType; 10] = [
        DType::U8,
        DType::I8,
        DType::U16,
        DType::I16,
        DType::U32,
        DType::I32,
        DType::U64,
        DType::I64,
        DType::F32,
        DType::F64,
    ];

    /// Bytes of one value.
    pub fn bytes(self) -> usize {
        match self {
            DType::U8 | DType::I8 => 1,
            DType::U16 | DType::I16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::U64 | DType::I64 | DType::F64 => 8,
        }
    }

    /// Its name, as numpy spells it in short: `u8`, `f32`, ...
    pub fn name(self) -> &'static str {
        match self {
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::U16 => "u16",
            DType::I16 => "i16",
            DType::U32 => "u32",
            DType::I32 => "i32",
            DType::U64 => "u64",
            DType::I64 => "i64",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A type whose values a field may have.
pub trait Element: Pod {
    /// Which type it is.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),*) => {
        $(impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        })*
    };
}
elements!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64,
    i64 => I64, f32 => F32, f64 => F64);

/// One part of a sample: numbers of one type in a fixed shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// What it is called in messages.
    pub name: String,
    /// The type of its values.
    pub dtype: DType,
    /// Its axes, the last one fastest; none for a single value.
    pub shape: Vec<u32>,
}

impl Field {
    /// A field by its name, type and shape.
    pub fn new(name: impl Into<String>, dtype: DType, shape: impl Into<Vec<u32>>) -> Self {
        Field { name: name.into(), dtype, shape: shape.into() }
    }

    /// Number of values; none when that is more than can be addressed.
    fn values(&self) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |product, &axis| product.checked_mul(axis as usize))
    }
}

impl fmt::Display for Field {
    /// `f32[32, 96, 96]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.shape)
    }
}

/// The fields of a sample and where each lies in a slot: in order, each at a multiple of 64
/// bytes. All samples of a stream have the same layout, so a slot has one size.
///
/// ```
/// use millrace_loader::producers::{DType, Field, Layout};
///
/// let image = Field::new("image", DType::F32, [32, 96, 96]);
/// let layout = Layout::new([image, Field::new("label", DType::U8, [])])?;
/// assert_eq!(layout.range(0), 0..32 * 96 * 96 * 4);
/// assert_eq!(layout.range(1).len(), 1);
/// assert_eq!(layout.slot_bytes(), 32 * 96 * 96 * 4 + 64);
/// # Ok::<(), millrace_loader::producers::LayoutError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    fields: Vec<Field>,
    /// Where each field begins, and its bytes.
    places: Vec<(usize, usize)>,
    slot_bytes: usize,
}

/// Why fields make no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// No field, or too many.
    #[error("a sample of {found} fields: it has from 1 to {MAX_FIELDS}")]
    Fields {
        /// How many there are.
        found: usize,
    },
    /// A field of more axes than a frame can tell.
    #[error("field {name:?} has {found} axes: at most {MAX_RANK} are possible")]
    Rank {
        /// The field.
        name: String,
        /// Its axes.
        found: usize,
    },
    /// A field without a value.
    #[error("field {name:?} has the shape {shape:?}, which holds no value")]
    Empty {
        /// The field.
        name: String,
        /// Its shape.
        shape: Vec<u32>,
    },
    /// More bytes than can be addressed.
    #[error("field {name:?} makes a sample of more bytes than can be addressed")]
    TooLarge {
        /// The field that was too much.
        name: String,
    },
}

impl Layout {
    /// The layout of these fields.
    ///
    /// # Errors
    /// When there is no field or more than [`MAX_FIELDS`], when one has no value or more than
    /// [`MAX_RANK`] axes, or when all together are more than can be addressed.
    pub fn new(fields: impl IntoIterator<Item = Field>) -> Result<Self, LayoutError> {
        let fields: Vec<Field> = fields.into_iter().collect();
        if fields.is_empty() || fields.len() > MAX_FIELDS {
            return Err(LayoutError::Fields { found: fields.len() });
        }
        let mut places = Vec::with_capacity(fields.len());
        let mut end = 0usize;
        for field in &fields {
            let name = || field.name.clone();
            if field.shape.len() > MAX_RANK {
                return Err(LayoutError::Rank { name: name(), found: field.shape.len() });
            }
            if field.shape.contains(&0) {
                return Err(LayoutError::Empty { name: name(), shape: field.shape.clone() });
            }
            let bytes = field.values().and_then(|values| values.checked_mul(field.dtype.bytes()));
            let next = bytes.and_then(|bytes| end.checked_add(bytes)?.checked_next_multiple_of(64));
            let (Some(bytes), Some(next)) =
                (bytes, next.filter(|&next| next < isize::MAX as usize))
            else {
                return Err(LayoutError::TooLarge { name: name() });
            };
            places.push((end, bytes));
            end = next;
        }
        Ok(Layout { fields, places, slot_bytes: end })
    }

    /// The fields in order.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Bytes of a slot, with what lies between the fields: a multiple of [`ALIGNMENT`].
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Bytes of the values of a sample, without what lies between the fields.
    pub fn sample_bytes(&self) -> usize {
        self.places.iter().map(|&(_, bytes)| bytes).sum()
    }

    /// Where a field lies in a slot, in bytes.
    ///
    /// # Panics
    /// When there is no such field.
    pub fn range(&self, field: usize) -> std::ops::Range<usize> {
        let (start, bytes) = self.places[field];
        start..start + bytes
    }

    /// Where a field lies that is to be read as values of type `T`.
    ///
    /// # Panics
    /// When there is no such field, or when its values are of another type.
    pub(crate) fn typed<T: Element>(&self, field: usize) -> std::ops::Range<usize> {
        let found = &self.fields[field];
        assert!(
            found.dtype == T::DTYPE,
            "field {field} ({:?}) is {found}, not {}",
            found.name,
            T::DTYPE
        );
        self.range(field)
    }
}

impl fmt::Display for Layout {
    /// `image: f32[32, 96, 96], label: u8[]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, field) in self.fields.iter().enumerate() {
            write!(f, "{}{}: {field}", if i == 0 { "" } else { ", " }, field.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(fields: impl IntoIterator<Item = Field>) -> String {
        Layout::new(fields).unwrap_err().to_string()
    }

    #[test]
    fn fields_follow_each_other_at_multiples_of_64() {
        let fields =
            [("a", DType::U8, vec![65]), ("b", DType::F64, vec![3, 3]), ("c", DType::I16, vec![])];
        let layout =
            Layout::new(fields.map(|(name, dtype, shape)| Field::new(name, dtype, shape))).unwrap();
        assert_eq!(
            (layout.range(0), layout.range(1), layout.range(2)),
            (0..65, 128..200, 256..258)
        );
        assert_eq!((layout.slot_bytes(), layout.sample_bytes()), (320, 65 + 72 + 2));
        assert_eq!(layout.to_string(), "a: u8[65], b: f64[3, 3], c: i16[]");
    }

    #[test]
    fn what_is_no_layout_is_told() {
        assert_eq!(error([]), "a sample of 0 fields: it has from 1 to 16");
        let many = (0..17).map(|_| Field::new("x", DType::U8, [1]));
        assert_eq!(error(many), "a sample of 17 fields: it has from 1 to 16");
        let empty = error([Field::new("x", DType::U8, [3, 0])]);
        assert_eq!(empty, r#"field "x" has the shape [3, 0], which holds no value"#);
        let rank = error([Field::new("x", DType::U8, [1; 9])]);
        assert_eq!(rank, r#"field "x" has 9 axes: at most 8 are possible"#);
        for shape in [vec![u32::MAX; 2], vec![u32::MAX; 3], vec![u32::MAX, u32::MAX / 4]] {
            let huge = error([Field::new("y", DType::F64, shape)]);
            assert_eq!(huge, r#"field "y" makes a sample of more bytes than can be addressed"#);
        }
    }

    #[test]
    #[should_panic(expected = r#"field 0 ("x") is u8[2], not f32"#)]
    fn another_type_is_refused() {
        Layout::new([Field::new("x", DType::U8, [2])]).unwrap().typed::<f32>(0);
    }
}
