//! What is wrong with an image file.

use std::fmt;

/// Why an image could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageFault {
    /// A file of no bytes.
    #[error("the file is empty")]
    Empty,
    /// The content is that of no image format.
    #[error("not an image: it starts with {}", Start(start))]
    Unknown {
        /// The first bytes, at most 16.
        start: Vec<u8>,
    },
    /// A file compressed by gzip, whatever is in it.
    #[error("not an image but gzip data: unpack it first")]
    Gzip,
    /// An image of a format that is not read.
    #[error("an image of the format {format}, wanted PNG, JPEG, WebP, BMP, GIF or TIFF")]
    Format {
        /// Its name.
        format: String,
    },
    /// The header claims an image of no pixels.
    #[error("the header claims {width}x{height} pixels")]
    NoPixels {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The header claims too large an image.
    #[error("the header claims {width}x{height} pixels, at most {limit} are read")]
    TooLarge {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
        /// The limit, in pixels.
        limit: u64,
    },
    /// A file that is longer than the largest image that would be read.
    #[error("the file is longer than {limit} bytes, the most that is read")]
    TooLong {
        /// The limit, in bytes.
        limit: u64,
    },
    /// Memory for the pixels cannot be had.
    #[error("no memory for {bytes} bytes of pixels")]
    Memory {
        /// Bytes that the pixels take.
        bytes: u64,
    },
    /// The data is damaged, cut, or of a kind that the decoder does not know.
    #[error("damaged {format}: {detail}")]
    Damaged {
        /// Name of the format.
        format: &'static str,
        /// What the decoder said.
        detail: String,
    },
}

/// Prints the first bytes of a file, as text where they are.
struct Start<'a>(&'a [u8]);

impl fmt::Display for Start<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
