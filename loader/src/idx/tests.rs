//! Every malformed input, and the message that it must give.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::testing::gzip;

/// Two images of 2x3 pixels.
fn image_file() -> Vec<u8> {
    let mut file = vec![0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3];
    file.extend(10..22);
    file
}

/// Four labels.
fn label_file() -> Vec<u8> {
    vec![0, 0, 8, 1, 0, 0, 0, 4, 3, 0, 9, 1]
}

/// The image file with bytes replaced from `at` on.
fn patched(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = image_file();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

fn image_error(file: &[u8]) -> String {
    parse_images("i", file).unwrap_err().to_string()
}

fn label_error(file: &[u8]) -> String {
    parse_labels("l", file, 10).unwrap_err().to_string()
}

#[test]
fn whole_files() {
    for file in [image_file(), gzip(&image_file())] {
        let images = parse_images("i", &file).unwrap();
        assert_eq!((images.count, images.rows, images.cols), (2, 2, 3));
        assert_eq!(images.pixels, (10..22).collect::<Vec<u8>>());
    }
    for file in [label_file(), gzip(&label_file())] {
        assert_eq!(parse_labels("l", &file, 10).unwrap(), [3, 0, 9, 1]);
    }
}

#[test]
fn gzip_members_follow_each_other() {
    let whole = image_file();
    let (start, end) = whole.split_at(7);
    let file = [gzip(start), gzip(b""), gzip(end), gzip(b"")].concat();
    assert_eq!(parse_images("i", &file).unwrap().pixels.len(), 12);
}

#[test]
fn headers() {
    assert_eq!(image_error(b""), r#""i": byte 0: the file ends inside the header: 0 bytes of 4"#);
    assert_eq!(
        image_error(&image_file()[..3]),
        r#""i": byte 3: the file ends inside the header: 3 bytes of 4"#
    );
    assert_eq!(
        image_error(&image_file()[..15]),
        r#""i": byte 15: the file ends inside the header: 15 bytes of 16"#
    );
    assert_eq!(
        image_error(b"\x89PNG\r\n"),
        r#""i": byte 0: not an IDX file: it starts with 89 50 4e 47, wanted 00 00"#
    );
    assert_eq!(
        image_error(&patched(2, &[0x0d])),
        r#""i": byte 2: the element type is 0x0d (32-bit float), wanted 0x08 (unsigned byte)"#
    );
    assert_eq!(
        image_error(&patched(3, &[4])),
        r#""i": byte 3: the data has 4 dimensions, wanted 3 for images"#
    );
    assert_eq!(
        image_error(&label_file()),
        r#""i": byte 3: this file holds labels, wanted images: are the two files swapped?"#
    );
    assert_eq!(
        label_error(&gzip(&image_file())),
        r#""l": byte 3 of the unpacked data: this file holds images, wanted labels: are the two files swapped?"#
    );
    for (at, what) in [(4, "images"), (8, "rows"), (12, "columns")] {
        assert_eq!(
            image_error(&patched(at, &[0; 4])),
            format!(r#""i": byte {at}: the header says 0 {what}"#)
        );
    }
    assert_eq!(
        image_error(&patched(4, &[0xff; 12])),
        r#""i": byte 4: the header claims 4294967295 x 4294967295 x 4294967295 bytes, more than can be addressed"#
    );
}

#[test]
fn data() {
    assert_eq!(
        image_error(&image_file()[..27]),
        r#""i": byte 27: the data ends after 11 bytes, the header claims 12"#
    );
    assert_eq!(
        image_error(&image_file()[..16]),
        r#""i": byte 16: the data ends after 0 bytes, the header claims 12"#
    );
    assert_eq!(
        image_error(&gzip(&image_file()[..27])),
        r#""i": byte 27 of the unpacked data: the data ends after 11 bytes, the header claims 12"#
    );
    // 2^32 - 1 images of 28x28, none of which is there.
    assert_eq!(
        image_error(&[0, 0, 8, 3, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 28, 0, 0, 0, 28, 1, 2]),
        r#""i": byte 18: the data ends after 2 bytes, the header claims 3367254359280"#
    );
    let long = [image_file(), vec![0]].concat();
    let message = "the data goes on after the 12 bytes that the header claims";
    assert_eq!(image_error(&long), format!(r#""i": byte 28: {message}"#));
    assert_eq!(
        image_error(&gzip(&long)),
        format!(r#""i": byte 28 of the unpacked data: {message}"#)
    );
    assert_eq!(
        label_error(&[0, 0, 8, 1, 0, 0, 0, 3, 3, 10, 200]),
        r#""l": byte 9: label 10 of sample 1, but there are 10 classes"#
    );
}

#[test]
fn damaged_gzip() {
    let file = gzip(&image_file());
    for cut in 2..file.len() {
        let expected = format!(r#""i": byte {cut}: the gzip stream ends early"#);
        assert_eq!(image_error(&file[..cut]), expected);
    }

    let mut wrong_checksum = file.clone();
    wrong_checksum[file.len() - 8] ^= 1;
    assert_eq!(
        image_error(&wrong_checksum),
        format!(
            r#""i": byte {}: the gzip stream is damaged: corrupt gzip stream does not have a matching checksum"#,
            file.len()
        )
    );

    let mut no_method = file.clone();
    no_method[2] = 7;
    assert_eq!(
        image_error(&no_method),
        r#""i": byte 10: the gzip stream is damaged: invalid gzip header"#
    );

    for rest in [&b"0"[..], &[0; 512], &file[1..], b"\x1f\x8c rubbish of some length"] {
        let followed = [&file, rest].concat();
        let expected =
            format!(r#""i": byte {}: bytes follow the end of the gzip stream"#, file.len());
        assert_eq!(image_error(&followed), expected);
    }
}

/// A small file that unpacks to a gigabyte is left after the first byte too many.
#[test]
fn bomb() {
    let member = gzip(&[0; 1 << 20]);
    let mut file = gzip(&image_file());
    for _ in 0..1024 {
        file.extend(&member);
    }
    assert!(image_error(&file).contains("byte 28 of the unpacked data: the data goes on after"));

    let mut input = Input::new(Path::new("i"), &file[..]).unwrap();
    images(&mut input).unwrap_err();
    assert!(input.taken() < (file.len() / 512) as u64, "{} bytes were read", input.taken());
}

#[test]
fn missing_file() {
    let message = read_images("/nowhere/at all").unwrap_err().to_string();
    assert!(message.starts_with(r#""/nowhere/at all": "#), "{message}");
    // Opening a directory works on some systems; reading it never does.
    assert!(matches!(read_images(std::env::temp_dir()), Err(DataError::Read { .. })));
}

/// Memory asked for never exceeds what is claimed, and at most doubles what has arrived.
#[test]
fn growth_is_bounded() {
    for (held, missing) in [(0, 1), (0, 1 << 40), (STEP, 1 << 40), (1 << 30, 5), (1 << 30, 1 << 40)]
    {
        let more = growth(held, missing);
        assert!(more > 0 && more as u64 <= missing && more <= held.max(STEP));
    }
}

/// A valid file of a few kilobytes.
fn valid() -> impl Strategy<Value = Vec<u8>> {
    (1u8..40, 1u8..9, 1u8..9, any::<u8>(), any::<bool>()).prop_map(|(n, rows, cols, seed, zip)| {
        let mut file = vec![0, 0, 8, 3, 0, 0, 0, n, 0, 0, 0, rows, 0, 0, 0, cols];
        let pixels = usize::from(n) * usize::from(rows) * usize::from(cols);
        file.extend((0..pixels).map(|i| (i as u8).wrapping_mul(seed)));
        if zip { gzip(&file) } else { file }
    })
}

proptest! {
    /// A changed file is read or refused in one line; what is read is no longer than the file
    /// can hold.
    #[test]
    fn mutations(
        file in valid(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut file = file;
        for (at, byte) in changes {
            let at = at.index(file.len());
            file[at] = byte;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len() + 1));
        }
        match parse_images("i", &file) {
            // Deflate packs at most 1032 bytes into one.
            Ok(images) => {
                prop_assert_eq!(images.pixels.len(), images.count * images.rows * images.cols);
                prop_assert_eq!(images.pixels.capacity(), images.pixels.len());
                prop_assert!(images.pixels.len() <= 1032 * file.len());
            }
            Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1),
        }
        let _ = parse_labels("l", &file, 10);
    }

    /// Any bytes at all.
    #[test]
    fn rubbish(file in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_images("i", &file);
        let _ = parse_labels("l", &file, 10);
        let _ = parse_images("i", &[&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0], &file[..]].concat());
    }

    #[test]
    fn written_files_read_back(n in 1usize..20, rows in 1usize..9, cols in 1usize..9, seed: u8) {
        let pixels: Vec<u8> = (0..n * rows * cols).map(|i| (i as u8) ^ seed).collect();
        let labels: Vec<u8> = (0..n).map(|i| (i % 10) as u8).collect();
        let set = crate::Dataset::new("x", [1, rows, cols], pixels, labels, 10).unwrap();
        let images = parse_images("i", &encode_images(&set)).unwrap();
        prop_assert_eq!((images.count, images.rows, images.cols), (n, rows, cols));
        prop_assert_eq!(&images.pixels[..], set.images());
        prop_assert_eq!(&parse_labels("l", &encode_labels(&set), 10).unwrap()[..], set.labels());
    }
}
