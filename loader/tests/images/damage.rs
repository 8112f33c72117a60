//! Files that are cut, changed, or not what they seem: an error each, never a panic, and never
//! memory for a claim.

use millrace_loader::DataError;
use millrace_loader::images::{ImageFault, ImageOptions, ImageReader};
use proptest::prelude::*;

use crate::{bytes, decode, path};

const FILES: [&str; 10] = [
    "baseline.jpg",
    "progressive.jpg",
    "grey.jpg",
    "cyan-cmyk.jpg",
    "rgb.png",
    "palette.png",
    "rgb.bmp",
    "rgb.tiff",
    "rgba.webp",
    "two-frames.gif",
];

fn fault(file: &[u8]) -> ImageFault {
    decode(file, [4, 4], &ImageOptions::default()).unwrap_err()
}

/// Cut anywhere. What lacks only the marks after the pixels may pass.
#[test]
fn a_cut_file_is_an_error() {
    for name in FILES {
        let whole = bytes(name);
        decode(&whole, [4, 4], &ImageOptions::default()).unwrap();
        let end = match name {
            // The second frame, which is not read, and what is beside the pixels.
            "two-frames.gif" => 120,
            // The checksum of the pixels, and the last chunk.
            "rgb.png" | "palette.png" => whole.len() - 16,
            // Padding.
            "rgb.bmp" | "rgb.tiff" | "rgba.webp" => whole.len() - 3,
            _ => whole.len(),
        };
        for len in 0..end {
            let cut = decode(&whole[..len], [4, 4], &ImageOptions::default());
            assert!(cut.is_err(), "{name}: {len} of {} bytes pass", whole.len());
        }
    }
}

#[test]
fn faults_are_told() {
    assert_eq!(fault(b""), ImageFault::Empty);
    assert_eq!(
        fault(b"hello,\nthis is text").to_string(),
        r#"not an image: it starts with "hello,\nthis is t""#
    );
    assert_eq!(fault(&[0x1f, 0x8b, 8, 0, 0]), ImageFault::Gzip);
    assert_eq!(
        fault(b"qoif\0\0\0\x01\0\0\0\x01\x03\0").to_string(),
        "an image of the format Qoi, wanted PNG, JPEG, WebP, BMP, GIF or TIFF"
    );
    let half = bytes("baseline.jpg");
    let told = fault(&half[..half.len() / 2 + 100]).to_string();
    assert!(told.starts_with("damaged JPEG: "), "{told}");
    let mut wrong_sum = bytes("rgb.png");
    let place = wrong_sum.len() - 20;
    wrong_sum[place] ^= 1;
    let told = fault(&wrong_sum).to_string();
    assert!(told.starts_with("damaged PNG: "), "{told}");
}

/// Headers that claim an enormous image, or one of no pixels.
#[test]
fn what_a_header_claims_is_refused_before_it_is_allocated() {
    let claim = |name: &str, at: usize, claim: &[u8]| {
        let mut file = bytes(name);
        file[at..at + claim.len()].copy_from_slice(claim);
        file
    };
    // Sizes are stored at fixed places of these headers.
    let bmp = claim("rgb.bmp", 18, &[0x60, 0xea, 0, 0, 0x60, 0xea, 0, 0]);
    assert_eq!(
        fault(&bmp).to_string(),
        "the header claims 60000x60000 pixels, at most 67108864 are read"
    );
    let gif = claim("two-frames.gif", 6, &[255; 4]);
    assert!(matches!(fault(&gif), ImageFault::TooLarge { width: 65535, .. }));
    let jpeg = bytes("baseline.jpg");
    let frame = jpeg.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
    let jpeg = claim("baseline.jpg", frame + 5, &[255; 4]);
    assert!(matches!(fault(&jpeg), ImageFault::TooLarge { height: 65535, .. }));
    // A checksum follows the sizes.
    let mut png = claim("rgb.png", 16, &[0x7f, 255, 255, 255, 0x7f, 255, 255, 255]);
    let sum = crc32(&png[12..29]);
    png[29..33].copy_from_slice(&sum.to_be_bytes());
    fault(&png);
    let none = claim("rgb.bmp", 18, &[0; 4]);
    fault(&none);

    let small = ImageOptions { max_pixels: 24 * 16 - 1, ..ImageOptions::default() };
    for name in FILES.into_iter().filter(|name| !name.contains("cmyk")) {
        let refused = decode(&bytes(name), [4, 4], &small).unwrap_err();
        let wanted = ImageFault::TooLarge { width: 24, height: 16, limit: 383 };
        assert_eq!(refused, wanted, "{name}");
    }
}

/// The checksum of a PNG chunk, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg())
        })
    })
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let mut reader = ImageReader::new([1, 1], ImageOptions::default());
    let mut error = |name: &str| reader.decode_file(&path(name), &mut [0.0; 3]).unwrap_err();
    assert!(
        matches!(error("absent.png"), DataError::Read { file, .. } if file == path("absent.png"))
    );
    assert!(error("").to_string().ends_with("not a regular file"));

    let folder = tempfile::tempdir().unwrap();
    let huge = folder.path().join("huge.png");
    std::fs::File::create(&huge).unwrap().set_len(2 << 20).unwrap();
    let options = ImageOptions { max_pixels: 100, ..ImageOptions::default() };
    let error = ImageReader::new([1, 1], options).decode_file(&huge, &mut [0.0; 3]).unwrap_err();
    assert!(
        error.to_string().ends_with("longer than 1049376 bytes, the most that is read"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Some bytes of a real file are changed: the sample, or an error.
    #[test]
    fn changed_files_never_panic(
        name in prop::sample::select(&FILES[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut file = bytes(name);
        for (place, byte) in changes {
            let place = place.index(file.len());
            file[place] = byte;
        }
        let options = ImageOptions { max_pixels: 1 << 20, ..ImageOptions::default() };
        if let Ok(values) = decode(&file, [3, 5], &options) {
            prop_assert!(values.iter().all(|value| (-0.001..=1.001).contains(value)));
        }
    }
}
