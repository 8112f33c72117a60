//! Named tensors, and the files that hold them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView, View};

use super::CheckpointError;
use super::files::write_whole;
use crate::Element;

/// A block of values and its sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    dims: Vec<usize>,
    values: Values,
}

/// The values of a [`Tensor`], the last size innermost.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Values {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Whole numbers, such as PyTorch's count of the batches that a batch norm has seen.
    I64(Vec<i64>),
}

impl Values {
    fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I64(values) => values.len(),
        }
    }

    const fn kind(&self) -> Dtype {
        match self {
            Self::F32(_) => Dtype::F32,
            Self::F64(_) => Dtype::F64,
            Self::I64(_) => Dtype::I64,
        }
    }
}

impl Tensor {
    /// A tensor of sizes `dims`, none for a single value.
    ///
    /// # Panics
    /// When there are not as many values as the product of the sizes.
    pub fn new(dims: &[usize], values: Values) -> Self {
        assert_eq!(values.len(), dims.iter().product::<usize>(), "values of a tensor");
        Self { dims: dims.to_vec(), values }
    }

    /// A tensor of the values of a layer, in their own precision.
    ///
    /// # Panics
    /// When there are not as many values as the product of the sizes.
    pub fn of<E: Element>(dims: &[usize], values: &[E]) -> Self {
        let values = values.iter().map(|value| value.widen());
        let single = size_of::<E>() <= size_of::<f32>();
        Self::new(
            dims,
            if single {
                Values::F32(values.map(|value| value as f32).collect())
            } else {
                Values::F64(values.collect())
            },
        )
    }

    /// Its sizes.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Its values.
    pub const fn values(&self) -> &Values {
        &self.values
    }
}

/// Tensors by name, as one file holds them: for instance all parameters of a network.
///
/// Files have the format safetensors, and [`Tensors::write`] writes the bytes that PyTorch's
/// `safetensors.torch.save_file(state_dict, path, {"format": "pt"})` does.
///
/// ```
/// use millrace_nn::checkpoint::{Tensor, Tensors};
///
/// let mut tensors = Tensors::new();
/// tensors.insert("fc.weight", Tensor::of(&[2, 3], &[0.0f32; 6]));
/// tensors.insert("fc.bias", Tensor::of(&[2], &[0.5f32, 0.25]));
/// let read = Tensors::from_bytes("memory", &tensors.to_bytes())?;
/// assert_eq!(read, tensors);
///
/// read.expect([("fc.weight", &[2, 3][..]), ("fc.bias", &[2])])?;
/// assert_eq!(read.elements::<f64>("fc.bias")?, [0.5, 0.25]);
/// let error = read.expect([("fc.weight", &[2, 3][..]), ("fc2.weight", &[5, 2])]).unwrap_err();
/// assert_eq!(error.to_string(), "missing tensors: fc2.weight; superfluous tensors: fc.bias");
/// # Ok::<(), millrace_nn::checkpoint::CheckpointError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensors(BTreeMap<String, Tensor>);

const WANTED: &str = "safetensors file";

impl Tensors {
    /// None.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds a tensor, in place of one that has the same name.
    pub fn insert(&mut self, name: impl Into<String>, tensor: Tensor) {
        self.0.insert(name.into(), tensor);
    }

    /// The tensor called `name`.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.0.get(name)
    }

    /// Names and tensors, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.0.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that there are tensors of these names and sizes, and no others.
    ///
    /// # Errors
    /// [`CheckpointError::Names`] with all missing and superfluous names, else
    /// [`CheckpointError::Shape`] for the first tensor of other sizes.
    pub fn expect<'a>(
        &self,
        wanted: impl IntoIterator<Item = (&'a str, &'a [usize])>,
    ) -> Result<(), CheckpointError> {
        let wanted: BTreeMap<_, _> = wanted.into_iter().collect();
        let missing = wanted.keys().filter(|name| !self.0.contains_key(**name));
        let superfluous = self.0.keys().filter(|name| !wanted.contains_key(name.as_str()));
        let missing: Vec<_> = missing.map(|&name| name.to_owned()).collect();
        let superfluous: Vec<_> = superfluous.cloned().collect();
        if !missing.is_empty() || !superfluous.is_empty() {
            return Err(CheckpointError::Names { missing, superfluous });
        }
        for (name, tensor) in self.iter() {
            let wanted = wanted[name];
            if tensor.dims != wanted {
                let (got, wanted) = (tensor.dims.clone(), wanted.to_vec());
                return Err(CheckpointError::Shape { tensor: name.to_owned(), got, wanted });
            }
        }
        Ok(())
    }

    /// The values of tensor `name` as those of a layer: those in another precision are rounded.
    ///
    /// # Errors
    /// [`CheckpointError::Names`] when there is no such tensor, [`CheckpointError::Type`] when it
    /// holds whole numbers.
    pub fn elements<E: Element>(&self, name: &str) -> Result<Vec<E>, CheckpointError> {
        let Some(tensor) = self.get(name) else {
            let (missing, superfluous) = (vec![name.to_owned()], Vec::new());
            return Err(CheckpointError::Names { missing, superfluous });
        };
        match &tensor.values {
            Values::F32(values) => Ok(values.iter().map(|&v| E::narrow(v.into())).collect()),
            Values::F64(values) => Ok(values.iter().map(|&v| E::narrow(v)).collect()),
            Values::I64(_) => Err(CheckpointError::Type {
                tensor: name.to_owned(),
                got: Dtype::I64.to_string(),
                wanted: "F32 or F64",
            }),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is no such file, or holds values of another type than those of
    /// [`Values`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, CheckpointError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(CheckpointError::io("read", path))?;
        Self::from_bytes(path, &bytes)
    }

    /// Writes a file, which holds either what it held before or all of the tensors, whenever the
    /// process or the system stops.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn write(&self, path: impl AsRef<Path>) -> Result<(), CheckpointError> {
        write_whole(path.as_ref(), &self.to_bytes())
    }

    /// The tensors in the content of a file; `path` is only for errors.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn from_bytes(path: impl AsRef<Path>, bytes: &[u8]) -> Result<Self, CheckpointError> {
        let file =
            SafeTensors::deserialize(bytes).map_err(|error| refuse(path.as_ref(), &error))?;
        let tensors = file.iter().map(|(name, view)| Ok((name.to_owned(), tensor(name, &view)?)));
        Ok(Self(tensors.collect::<Result<_, _>>()?))
    }

    /// The content of a file with these tensors.
    pub fn to_bytes(&self) -> Vec<u8> {
        let metadata = [("format".to_owned(), "pt".to_owned())].into();
        safetensors::serialize(self.iter(), Some(metadata))
            .expect("sizes fit the values, and names take less than 100 MB")
    }
}

fn tensor(name: &str, view: &TensorView<'_>) -> Result<Tensor, CheckpointError> {
    fn read<T, const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> T) -> Vec<T> {
        bytes.as_chunks::<N>().0.iter().map(|&bytes| value(bytes)).collect()
    }
    let values = match view.dtype() {
        Dtype::F32 => Values::F32(read(view.data(), f32::from_le_bytes)),
        Dtype::F64 => Values::F64(read(view.data(), f64::from_le_bytes)),
        Dtype::I64 => Values::I64(read(view.data(), i64::from_le_bytes)),
        other => {
            let (tensor, got) = (name.to_owned(), other.to_string());
            return Err(CheckpointError::Type { tensor, got, wanted: "F32, F64 or I64" });
        }
    };
    Ok(Tensor { dims: view.shape().to_vec(), values })
}

/// The error for a file that is not as it should be.
fn refuse(path: &Path, error: &SafeTensorError) -> CheckpointError {
    use SafeTensorError::{HeaderTooSmall, InvalidHeaderLength, MetadataIncompleteBuffer};
    match error {
        HeaderTooSmall | InvalidHeaderLength => {
            CheckpointError::truncated(path, "the header is not complete")
        }
        MetadataIncompleteBuffer => {
            CheckpointError::truncated(path, "the header tells of other values than there are")
        }
        other => CheckpointError::foreign(path, WANTED, other),
    }
}

impl View for &Tensor {
    fn dtype(&self) -> Dtype {
        self.values.kind()
    }

    fn shape(&self) -> &[usize] {
        &self.dims
    }

    fn data(&self) -> Cow<'_, [u8]> {
        fn bytes<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
            values.iter().flat_map(|&value| bytes(value)).collect()
        }
        Cow::Owned(match &self.values {
            Values::F32(values) => bytes(values, f32::to_le_bytes),
            Values::F64(values) => bytes(values, f64::to_le_bytes),
            Values::I64(values) => bytes(values, i64::to_le_bytes),
        })
    }

    fn data_len(&self) -> usize {
        self.values.len() * self.values.kind().bitsize() / 8
    }
}
