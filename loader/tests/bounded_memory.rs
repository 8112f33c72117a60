//! The address space of the process does not follow what headers claim.
//!
//! The only test of its program: the system's figure is that of the whole process.
#![cfg(target_os = "linux")]

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use millrace_loader::{DataError, Reason, idx};

/// The largest address space that this process has had, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() / 1024
}

#[test]
fn claims_are_not_allocated() {
    // 2^32 - 1 images of 28x28 are 3.1 TiB; 4 MiB of them arrive.
    let mut file = vec![0, 0, 8, 3, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 28, 0, 0, 0, 28];
    file.resize(file.len() + (4 << 20), 7);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&file).unwrap();
    let packed = encoder.finish().unwrap();
    // As many labels, 4 GiB.
    let labels = [&[0, 0, 8, 1, 0xff, 0xff, 0xff, 0xff][..], &[1; 1000]].concat();

    let before = peak();
    for bytes in [&file, &packed] {
        let error = idx::parse_images("claim", bytes).unwrap_err();
        let DataError::Malformed { reason: Reason::ShortData { claimed, found }, .. } = error
        else {
            panic!("{error}");
        };
        assert_eq!((claimed, found), (0xffff_ffff * 784, 4 << 20));
    }
    idx::parse_labels("claim", &labels, 10).unwrap_err();
    let grown = peak() - before;
    assert!(grown < 64, "{grown} MiB");
}
