//! The embedded set against figures that another program computed from the full one.

use millrace_loader::{CLASSES, Dataset, embedded};

/// Samples and sum of all pixels, for each class.
fn per_class(set: &Dataset) -> [(u32, u64); CLASSES] {
    let mut classes = [(0, 0); CLASSES];
    for (i, &label) in set.labels().iter().enumerate() {
        let class = &mut classes[usize::from(label)];
        class.0 += 1;
        class.1 += set.image(i).iter().map(|&pixel| u64::from(pixel)).sum::<u64>();
    }
    classes
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[test]
fn training_set() {
    let (train, _) = embedded();
    assert_eq!((train.len(), train.shape(), train.classes()), (6000, [1, 28, 28], 10));
    assert_eq!(
        per_class(&train),
        [
            (560, 36170239),
            (643, 28848035),
            (608, 45907643),
            (612, 31238567),
            (584, 45852027),
            (594, 15986017),
            (590, 39578919),
            (617, 20927705),
            (590, 41898714),
            (602, 36262412)
        ]
    );
    assert_eq!(fnv(train.images()), 0x46a2_2522_f27c_76c9);
    assert_eq!(fnv(train.labels()), 0xd6a4_f665_a94c_06dd);
}

#[test]
fn test_set() {
    let (_, test) = embedded();
    assert_eq!((test.len(), test.shape(), test.classes()), (1000, [1, 28, 28], 10));
    assert_eq!(
        per_class(&test),
        [
            (107, 6951944),
            (105, 4534988),
            (111, 8349938),
            (93, 4889374),
            (115, 9268769),
            (87, 2322546),
            (97, 6353568),
            (95, 3267407),
            (95, 6529761),
            (95, 5565854)
        ]
    );
    assert_eq!(fnv(test.images()), 0xa89d_3ef4_27b6_88aa);
    assert_eq!(fnv(test.labels()), 0x3948_93ec_ce7e_ae36);
}

#[test]
fn truncated() {
    let (mut train, _) = embedded();
    let (first, last) = (train.image(0).to_vec(), train.image(9).to_vec());
    train.truncate(10);
    train.truncate(20);
    assert_eq!((train.len(), train.images().len()), (10, 7840));
    assert_eq!((train.image(0), train.image(9)), (&first[..], &last[..]));
    train.truncate(0);
    assert!(train.is_empty());
}
