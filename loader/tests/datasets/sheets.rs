//! Contact sheets.

use millrace_loader::sheet::{SheetError, SheetOptions, contact_sheet};

use crate::Made;

const MADE: Made = Made {
    len: 10,
    shape: [3, 16, 32],
    classes: 4,
    per_pixel: false,
    value: |sample, [channel, ..]| if channel == sample % 3 { 1.0 } else { 0.0 },
    bad: &[],
};

fn sheet(made: &Made, count: usize, columns: usize) -> image::RgbImage {
    let png = contact_sheet(made, &SheetOptions { count, columns }).unwrap();
    image::load_from_memory(&png).unwrap().into_rgb8()
}

/// Cells are 64 wide and 32 high, with a line of text under each.
#[test]
fn samples_are_in_their_places() {
    let sheet = sheet(&MADE, 5, 2);
    assert_eq!(sheet.dimensions(), (4 + 2 * 68, 4 + 3 * 48));
    for shown in 0..5 {
        let (left, top) = (4 + shown % 2 * 68, 4 + shown / 2 * 48);
        // Every other sample is shown.
        let mut colour = [0; 3];
        colour[shown as usize * 2 % 3] = 255;
        for (x, y) in [(0, 0), (63, 31), (30, 7)] {
            assert_eq!(sheet.get_pixel(left + x, top + y).0, colour);
        }
        let text = |x: u32, y: u32| sheet.get_pixel(left + x, top + 34 + y).0[0] == 0;
        let letters = (0..8).flat_map(|y| (0..64).map(move |x| (x, y)));
        let dark = letters.filter(|&(x, y)| text(x, y)).count();
        assert!((5..40).contains(&dark), "the label has one letter: {dark} pixels");
    }
    assert_eq!(sheet.get_pixel(100, 4 + 2 * 48 + 10).0, [255; 3], "the last place is empty");
}

#[test]
fn bad_samples_are_crossed_out() {
    let sheet = sheet(&Made { bad: &[0], ..MADE }, 1, 8);
    assert_eq!(sheet.get_pixel(4, 4).0, [220, 0, 0]);
    assert_eq!(sheet.get_pixel(4 + 10, 4).0, [255; 3]);
}

#[test]
fn other_values_and_channels() {
    let range = Made { value: |_, [_, y, _]| y as f32 * 2.0 - 15.0, ..MADE };
    let shown = sheet(&range, 1, 1);
    assert_eq!((shown.get_pixel(4, 4).0, shown.get_pixel(4, 35).0), ([0; 3], [255; 3]));
    // Of five planes, the third.
    let volume =
        Made { shape: [5, 16, 32], value: |_, [c, ..]| f32::from(u8::from(c == 2)), ..MADE };
    assert_eq!(sheet(&volume, 1, 1).get_pixel(4, 4).0, [255; 3]);
}

#[test]
fn sheets_that_are_none() {
    let refused = |made: Made, count, columns| {
        contact_sheet(&made, &SheetOptions { count, columns }).unwrap_err()
    };
    assert!(matches!(refused(Made { len: 0, ..MADE }, 5, 5), SheetError::Nothing { .. }));
    assert!(matches!(refused(MADE, 5, 0), SheetError::Nothing { samples: 5, columns: 0 }));
    let large = Made { shape: [1, 1 << 14, 1 << 14], value: |_, _| 0.0, ..MADE };
    let told = refused(large, 9, 3).to_string();
    assert!(told.ends_with("is too large: show fewer samples"), "{told}");
}
