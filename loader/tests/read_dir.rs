//! Directories of four files: names, and what does not go together.

use std::fs;
use std::path::Path;

use millrace_loader::{Dataset, idx};

const NAMES: [&str; 4] = [
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
];

/// Samples of 2x2 pixels, whose first pixel is their index.
fn set(samples: u8, cols: usize) -> Dataset {
    let images = (0..samples).flat_map(|i| (0..2 * cols).map(move |_| i)).collect();
    let labels = (0..samples).map(|i| i % 10).collect();
    Dataset::new("x", [1, 2, cols], images, labels, 10).unwrap()
}

fn write(dir: &Path, names: [&str; 4]) {
    let (train, test) = (set(5, 2), set(3, 2));
    fs::write(dir.join(names[0]), idx::encode_images(&train)).unwrap();
    fs::write(dir.join(names[1]), idx::encode_labels(&train)).unwrap();
    fs::write(dir.join(names[2]), idx::encode_images(&test)).unwrap();
    fs::write(dir.join(names[3]), idx::encode_labels(&test)).unwrap();
}

/// The message of the error, with the directory's changing part taken out.
fn error(dir: &Path) -> String {
    let message = idx::read_dir(dir).unwrap_err().to_string();
    assert_eq!(message.lines().count(), 1, "{message}");
    message.replace(dir.to_str().unwrap(), "DIR")
}

#[test]
fn the_four_names_and_their_variants() {
    let dotted = NAMES.map(|name| name.replace("-idx", ".idx"));
    // The suffix does not decide whether a file is compressed.
    let suffixed = NAMES.map(|name| format!("{name}.gz"));
    for names in [NAMES.map(str::to_owned), dotted, suffixed] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), [0, 1, 2, 3].map(|i| names[i].as_str()));
        let (train, test) = idx::read_dir(dir.path()).unwrap();
        assert_eq!((train.len(), test.len()), (5, 3));
        assert_eq!(train.shape(), [1, 2, 2]);
        assert_eq!(train.image(4), [4; 4]);
        assert_eq!(test.labels(), [0, 1, 2]);
        assert!(train.name().ends_with("/train") && test.name().ends_with("/test"));
    }
}

#[test]
fn a_missing_file_is_told_with_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let looked_for = "looked for t10k-labels-idx1-ubyte, t10k-labels-idx1-ubyte.gz, \
                      t10k-labels.idx1-ubyte, t10k-labels.idx1-ubyte.gz";
    write(dir.path(), NAMES);
    fs::rename(dir.path().join(NAMES[3]), dir.path().join("t10k\nlabels")).unwrap();
    assert_eq!(
        error(dir.path()),
        format!(
            "\"DIR\" has no file with the test labels: {looked_for}; found \"t10k\\nlabels\", \
             \"t10k-images-idx3-ubyte\", \"train-images-idx3-ubyte\", \"train-labels-idx1-ubyte\""
        )
    );

    let dir = tempfile::tempdir().unwrap();
    assert!(error(dir.path()).starts_with("\"DIR\" has no file with the training images: "));
    assert!(error(dir.path()).ends_with("found nothing"));
    for i in 0..12 {
        fs::write(dir.path().join(format!("file {i:02}")), "").unwrap();
    }
    assert!(error(dir.path()).ends_with("\"file 07\" and 4 more"), "{}", error(dir.path()));

    let message = error(&dir.path().join("none"));
    assert!(message.starts_with("\"DIR\": "), "{message}");
}

#[test]
fn files_that_do_not_go_together() {
    let dir = tempfile::tempdir().unwrap();
    let path = |i: usize| dir.path().join(NAMES[i]);
    write(dir.path(), NAMES);
    fs::write(path(1), idx::encode_labels(&set(4, 2))).unwrap();
    assert_eq!(
        error(dir.path()),
        "\"DIR/train-labels-idx1-ubyte\": byte 4: \
         4 labels for the 5 images of \"DIR/train-images-idx3-ubyte\""
    );

    write(dir.path(), NAMES);
    fs::write(path(2), idx::encode_images(&set(3, 4))).unwrap();
    assert_eq!(
        error(dir.path()),
        "\"DIR/t10k-images-idx3-ubyte\": byte 8: images of 2x4 pixels, \
         those of \"DIR/train-images-idx3-ubyte\" have 2x2"
    );

    write(dir.path(), [NAMES[1], NAMES[0], NAMES[3], NAMES[2]]);
    assert_eq!(
        error(dir.path()),
        "\"DIR/train-images-idx3-ubyte\": byte 3: \
         this file holds labels, wanted images: are the two files swapped?"
    );
}

#[test]
fn what_is_no_file_is_refused_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), NAMES);
    let images = dir.path().join(NAMES[0]);
    fs::remove_file(&images).unwrap();
    fs::create_dir(&images).unwrap();
    let expected = format!("\"DIR/{}\": not a regular file", NAMES[0]);
    assert_eq!(error(dir.path()), expected);
    #[cfg(target_os = "linux")]
    {
        fs::remove_dir(&images).unwrap();
        // Would never end.
        std::os::unix::fs::symlink("/dev/zero", &images).unwrap();
        assert_eq!(error(dir.path()), expected);
    }
}
