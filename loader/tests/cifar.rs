//! CIFAR's binary files: whole, cut and wrong ones.

use std::fs;

use millrace_loader::cifar::{self, Cifar};
use millrace_loader::{DataError, Position, Reason};
use proptest::prelude::*;

const KINDS: [(Cifar, usize, usize); 3] =
    [(Cifar::Ten, 1, 0), (Cifar::Hundred, 2, 1), (Cifar::HundredCoarse, 2, 0)];

/// Records with recognisable labels and pixels; `at` of `label_bytes` counts.
fn file(records: usize, label_bytes: usize, at: usize, classes: usize) -> Vec<u8> {
    let record = |i: usize| {
        let mut label = vec![0; label_bytes];
        label[at] = (i * 3 % classes) as u8;
        label.into_iter().chain((0..3072).map(move |p| (p + i * 7) as u8))
    };
    (0..records).flat_map(record).collect()
}

#[test]
fn labels_and_planes() {
    for (kind, label_bytes, at) in KINDS {
        let set = cifar::parse("x", &file(9, label_bytes, at, kind.classes()), kind).unwrap();
        assert_eq!((set.len(), set.shape(), set.classes()), (9, [3, 32, 32], kind.classes()));
        for i in 0..9 {
            assert_eq!(usize::from(set.labels()[i]), i * 3 % kind.classes());
            let pixels: Vec<u8> = (0..3072).map(|p| (p + i * 7) as u8).collect();
            assert_eq!(set.image(i), pixels);
        }
    }
}

/// Every length up to three records but the whole ones.
#[test]
fn a_cut_file_is_told_at_the_byte_where_the_last_whole_record_ends() {
    let whole = file(3, 1, 0, 10);
    for len in (0..whole.len()).step_by(61).chain([3072, 3074, 6145, 6147]) {
        let error = cifar::parse("cut", &whole[..len], Cifar::Ten).unwrap_err();
        let DataError::Malformed { position: Position::File(offset), reason, .. } = error else {
            panic!("{error}");
        };
        let wanted = match len {
            0 => Reason::Empty,
            _ => Reason::Records { record: 3073, found: len as u64 },
        };
        assert_eq!((offset, reason), ((len - len % 3073) as u64, wanted));
    }
}

#[test]
fn files_of_one_data_set_are_not_the_other() {
    let hundred = file(2, 2, 1, 100);
    let error = cifar::parse("x", &hundred, Cifar::Ten).unwrap_err();
    assert!(error.to_string().contains("6148 bytes"), "{error}");
    let mut ten = file(2, 1, 0, 10);
    ten[3073] = 10;
    let error = cifar::parse("x", &ten, Cifar::Ten).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#""x": byte 3073: label 10 of sample 1, but there are 10 classes"#
    );
}

#[test]
fn a_directory_with_names() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Cifar::of_dir(dir.path()), None);
    for i in 1..=5 {
        let path = dir.path().join(format!("data_batch_{i}.bin"));
        fs::write(path, file(i, 1, 0, 10)).unwrap();
    }
    assert_eq!(Cifar::of_dir(dir.path()), Some(Cifar::Ten));
    let error = cifar::read_dir(dir.path(), Cifar::Ten).unwrap_err();
    assert!(error.to_string().contains("test_batch.bin"), "{error}");

    fs::write(dir.path().join("test_batch.bin"), file(2, 1, 0, 10)).unwrap();
    let (train, test) = cifar::read_dir(dir.path(), Cifar::Ten).unwrap();
    assert_eq!((train.len(), test.len()), (15, 2));
    // The second file begins again with the first label.
    assert_eq!(train.labels()[..4], [0, 0, 3, 0]);
    assert!(train.class_names().is_empty());

    let names = dir.path().join("batches.meta.txt");
    fs::write(&names, "a\nb\n\n").unwrap();
    let error = cifar::read_dir(dir.path(), Cifar::Ten).unwrap_err();
    assert!(error.to_string().ends_with("2 names for 10 classes"), "{error}");
    fs::write(&names, "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n").unwrap();
    let (_, test) = cifar::read_dir(dir.path(), Cifar::Ten).unwrap();
    assert_eq!(test.class_names()[9], "j");
}

proptest! {
    #[test]
    fn any_bytes_are_records_or_an_error(
        len in 0usize..10_000, place in any::<usize>(), byte: u8, gzip: bool,
    ) {
        let mut bytes = vec![0; len];
        if let Some(first) = bytes.first_mut().filter(|_| gzip) {
            *first = 0x1f;
        }
        if len > 0 {
            bytes[place % len] = byte;
        }
        for (kind, label_bytes, _) in KINDS {
            if let Ok(set) = cifar::parse("x", &bytes, kind) {
                prop_assert_eq!(set.len() * (label_bytes + 3072), len);
                prop_assert!(set.labels().iter().all(|&l| usize::from(l) < kind.classes()));
            }
        }
    }
}
