//! NPY files: every element type, labels of samples and of pixels, broken files.

use std::fs;
use std::path::Path;

use millrace_loader::npy::{LABELS, NpySet, SAMPLES};
use millrace_loader::open::{Format, open};
use millrace_loader::{LabelKind, SamplePlace, Samples};

fn npy(kind: &str, shape: &str, numbers: &[u8]) -> Vec<u8> {
    let mut text = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    while !(text.len() + 11).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let length = (text.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], text.as_bytes(), numbers].concat()
}

fn write(dir: &Path, samples: &[u8], labels: &[u8]) {
    fs::create_dir_all(dir).unwrap();
    fs::write(dir.join(SAMPLES), samples).unwrap();
    fs::write(dir.join(LABELS), labels).unwrap();
}

fn open_both(samples: &[u8], labels: &[u8]) -> Result<NpySet, String> {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), samples, labels);
    NpySet::open_dir(dir.path()).map_err(|error| {
        let told = error.to_string();
        assert_eq!(told.lines().count(), 1, "{told}");
        told.replace(dir.path().to_str().unwrap(), "DIR")
    })
}

fn decode(set: &NpySet, index: usize) -> (Vec<f32>, Vec<u8>) {
    let mut values = vec![f32::NAN; set.sample_len()];
    let mut labels = vec![255; set.label_kind().per_sample()];
    set.decode(SamplePlace { epoch: 0, index }, &mut values, &mut labels).unwrap();
    (values, labels)
}

/// Three samples of two values in every type and byte order.
#[test]
fn every_type_of_number() {
    let numbers = [0i64, 1, 5, 100, 7, 120];
    macro_rules! bytes {
        ($type:ty) => {
            [
                numbers.iter().flat_map(|&n| (n as $type).to_le_bytes()).collect::<Vec<u8>>(),
                numbers.iter().flat_map(|&n| (n as $type).to_be_bytes()).collect(),
            ]
        };
    }
    let labels = npy("<i8", "(3,)", &[1i64, 0, 2].map(i64::to_le_bytes).concat());
    for (kind, files, scale) in [
        ("u1", bytes!(u8), 255.0),
        ("u2", bytes!(u16), 65535.0),
        ("u4", bytes!(u32), 1.0),
        ("u8", bytes!(u64), 1.0),
        ("i1", bytes!(i8), 1.0),
        ("i2", bytes!(i16), 1.0),
        ("i4", bytes!(i32), 1.0),
        ("i8", bytes!(i64), 1.0),
        ("f4", bytes!(f32), 1.0),
        ("f8", bytes!(f64), 1.0),
    ] {
        for (order, file) in ["<", ">"].iter().zip(&files) {
            let set = open_both(&npy(&format!("{order}{kind}"), "(3, 2)", file), &labels).unwrap();
            assert_eq!((set.len(), set.shape(), set.classes()), (3, [1, 1, 2], 3));
            for index in 0..3 {
                let wanted = [numbers[2 * index], numbers[2 * index + 1]].map(|n| n as f32 / scale);
                assert_eq!(
                    decode(&set, index),
                    (wanted.to_vec(), vec![[1, 0, 2][index]]),
                    "{kind}"
                );
            }
        }
    }
    let set = open_both(&npy("|b1", "(3, 2)", &[0, 1, 1, 0, 1, 1]), &labels).unwrap();
    assert_eq!(decode(&set, 1).0, [1.0, 0.0]);
}

#[test]
fn labels_of_pixels_and_of_voxels() {
    let numbers: Vec<u8> = (0..48).collect();
    let volumes = npy("|u1", "(2, 2, 3, 4)", &numbers);
    let per_voxel = npy("|u1", "(2, 2, 3, 4)", &numbers);
    let set = open_both(&volumes, &per_voxel).unwrap();
    assert_eq!((set.shape(), set.label_kind()), ([2, 3, 4], LabelKind::Pixel { labels: 24 }));
    assert_eq!(set.classes(), 48);
    assert_eq!(decode(&set, 1).1, numbers[24..]);
    for shape in ["(2, 3, 4)", "(2, 1, 3, 4)"] {
        let set = open_both(&volumes, &npy("|u1", shape, &numbers[..24])).unwrap();
        assert_eq!(set.label_kind(), LabelKind::Pixel { labels: 12 });
        assert_eq!(decode(&set, 1).1, numbers[12..24]);
    }
}

#[test]
fn a_cut_or_longer_file_is_refused() {
    let samples = npy("|u1", "(3, 2)", &[0; 6]);
    let labels = npy("|u1", "(3,)", &[0; 3]);
    for len in 0..samples.len() {
        open_both(&samples[..len], &labels).unwrap_err();
    }
    for len in 0..labels.len() {
        open_both(&samples, &labels[..len]).unwrap_err();
    }
    let longer = [&samples[..], &[0]].concat();
    let told = open_both(&longer, &labels).unwrap_err();
    assert!(told.ends_with("goes on after the 6 bytes that the header claims"), "{told}");
}

#[test]
fn what_does_not_go_together() {
    let samples = npy("|u1", "(3, 2)", &[0; 6]);
    for (samples, labels, wanted) in [
        (&samples, npy("|u1", "(2,)", &[0; 2]), "labels of shape [2] do not go with samples"),
        (&samples, npy("<f4", "(3,)", &[0; 12]), "labels are whole numbers"),
        (&samples, npy("<i2", "(3,)", &[0, 0, 0, 1, 0, 0]), "byte 130: a label is from 0 to 255"),
        (&samples, npy("|i1", "(3,)", &[0, 255, 0]), "byte 129: a label is from 0 to 255"),
        (&npy("|u1", "(6,)", &[0; 6]), npy("|u1", "(6,)", &[0; 6]), "wanted 2, 3 or 4 dimensions"),
        (&npy("|u1", "(3, 0)", &[]), npy("|u1", "(3,)", &[0; 3]), "have no pixel"),
        (
            &npy("<f8", "(4294967296, 4294967296)", &[]),
            npy("|u1", "(3,)", &[0; 3]),
            "larger than can be addressed",
        ),
        (
            &npy("<f8", "(1000000000, 1000000)", &[]),
            npy("|u1", "(3,)", &[0; 3]),
            "the data ends after 0 bytes, the header claims 8000000000000000",
        ),
    ] {
        let told = open_both(samples, &labels).unwrap_err();
        assert!(told.contains(wanted), "{told}");
    }
}

#[test]
fn a_file_that_shrinks_later_is_an_error_then() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &npy("|u1", "(3, 2)", &[0; 6]), &npy("|u1", "(3,)", &[0; 3]));
    let set = NpySet::open_dir(dir.path()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(dir.path().join(SAMPLES)).unwrap();
    file.set_len(130).unwrap();
    let place = SamplePlace { epoch: 0, index: 2 };
    let error = set.decode(place, &mut [0.0; 2], &mut [0]).unwrap_err();
    assert!(error.to_string().contains(SAMPLES), "{error}");
}

#[test]
fn folders_and_parts_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let samples = |n: u8| npy("|u1", &format!("({n}, 2)"), &vec![0; 2 * usize::from(n)]);
    let labels = |n: u8| npy("|u1", &format!("({n},)"), &vec![0; usize::from(n)]);
    write(&dir.path().join("train"), &samples(5), &labels(5));
    let opened = open(dir.path(), &Default::default()).unwrap();
    assert_eq!((opened.format, opened.train.len(), opened.test.is_none()), (Format::Npy, 5, true));
    write(&dir.path().join("test"), &samples(2), &labels(2));
    let opened = open(dir.path(), &Default::default()).unwrap();
    assert_eq!(opened.test.unwrap().len(), 2);
    let opened = open(dir.path().join("test"), &Default::default()).unwrap();
    assert_eq!((opened.train.len(), opened.test.is_none()), (2, true));
}
