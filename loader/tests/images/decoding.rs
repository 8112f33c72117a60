//! Formats, colours, depths, transparency, size and orientation.

use image::metadata::Orientation;
use image::{DynamicImage, RgbImage};
use millrace_loader::images::{Colours, Fit, ImageOptions};

use crate::{assert_close, bytes, decode, picture, planes};

const SIZE: [usize; 2] = [16, 24];

#[test]
fn every_format_gives_the_picture() {
    let wanted = planes(3, SIZE, picture);
    for name in ["rgb.png", "rgb.bmp", "rgb.tiff", "rgb.webp"] {
        let found = decode(&bytes(name), SIZE, &ImageOptions::default()).unwrap();
        assert_close(&found, &wanted, 0.0001, name);
    }
    for name in ["baseline.jpg", "progressive.jpg"] {
        let found = decode(&bytes(name), SIZE, &ImageOptions::default()).unwrap();
        assert_close(&found, &wanted, 12.0, name);
    }
}

#[test]
fn grey_and_colours_become_each_other() {
    let grey = |_, _, x: usize| x as f32 * 10.0 / 255.0;
    let options = ImageOptions { colours: Colours::Grey, ..ImageOptions::default() };
    for (name, most) in [("grey.png", 0.0001), ("grey.jpg", 3.0)] {
        let found = decode(&bytes(name), SIZE, &ImageOptions::default()).unwrap();
        assert_close(&found, &planes(3, SIZE, grey), most, name);
        let found = decode(&bytes(name), SIZE, &options).unwrap();
        assert_close(&found, &planes(1, SIZE, grey), most, name);
    }
    let luma =
        |_, y, x| 0.299 * picture(0, y, x) + 0.587 * picture(1, y, x) + 0.114 * picture(2, y, x);
    let found = decode(&bytes("rgb.png"), SIZE, &options).unwrap();
    assert_close(&found, &planes(1, SIZE, luma), 0.0001, "luma");
}

#[test]
fn transparent_pixels_are_laid_over_the_background() {
    let background = [0, 255, 51];
    let over = |value: f32, x: usize, channel: usize| {
        let alpha = (x / 6) as f32 / 3.0;
        value * alpha + f32::from(background[channel]) / 255.0 * (1.0 - alpha)
    };
    let options = ImageOptions { background, ..ImageOptions::default() };
    for name in ["rgba.png", "rgba.webp"] {
        let found = decode(&bytes(name), SIZE, &options).unwrap();
        let wanted = planes(3, SIZE, |channel, y, x| over(picture(channel, y, x), x, channel));
        assert_close(&found, &wanted, 0.001, name);
    }
    let grey = ImageOptions { background: [255, 255, 255], ..ImageOptions::default() };
    let found = decode(&bytes("grey-alpha.png"), SIZE, &grey).unwrap();
    let wanted = planes(3, SIZE, |_, _, x| {
        let alpha = (x / 6) as f32 / 3.0;
        x as f32 * 10.0 / 255.0 * alpha + (1.0 - alpha)
    });
    assert_close(&found, &wanted, 0.001, "grey with alpha");
    let found = decode(&bytes("palette.png"), SIZE, &options).unwrap();
    let colour = |channel: usize, x: usize| match x / 6 {
        3 => f32::from(background[channel]) / 255.0,
        index => f32::from(u8::from(index == channel)),
    };
    assert_close(&found, &planes(3, SIZE, |c, _, x| colour(c, x)), 0.001, "palette");
}

#[test]
fn sixteen_bits_are_scaled_by_their_maximum() {
    let size = [256, 256];
    let options = ImageOptions { colours: Colours::Grey, ..ImageOptions::default() };
    let found = decode(&bytes("ramp16.png"), size, &options).unwrap();
    assert_eq!((found[0], found[1], found[65535]), (0.0, 1.0 / 65535.0, 1.0));
    let mean = found.iter().map(|&value| f64::from(value)).sum::<f64>() / 65536.0;
    assert!((mean - 0.5).abs() < 1e-5, "{mean}");
}

#[test]
fn inks_become_colours() {
    for name in ["cyan-cmyk.jpg", "cyan-cmyk.tiff"] {
        let found = decode(&bytes(name), [8, 8], &ImageOptions::default()).unwrap();
        let wanted = planes(3, [8, 8], |channel, _, _| [0.0, 1.0, 1.0][channel]);
        assert_close(&found, &wanted, 2.0, name);
    }
}

#[test]
fn an_animation_is_its_first_frame() {
    let found = decode(&bytes("two-frames.gif"), SIZE, &ImageOptions::default()).unwrap();
    assert_eq!((found[0], found[23]), (1.0, 9.0 / 255.0));
}

/// All eight orientations, beside those of the crate that decodes.
#[test]
fn images_are_turned_as_they_say() {
    let stored = decode(&bytes("orientation-1.jpg"), SIZE, &ImageOptions::default()).unwrap();
    let level = |c: usize, y: usize, x: usize| (stored[c * 384 + y * 24 + x] * 255.0).round() as u8;
    let plain = RgbImage::from_fn(24, 16, |x, y| {
        image::Rgb([0, 1, 2].map(|c| level(c, y as usize, x as usize)))
    });
    for number in 1..=8u8 {
        let mut turned = DynamicImage::from(plain.clone());
        turned.apply_orientation(Orientation::from_exif(number).unwrap());
        let turned = turned.into_rgb8();
        let size = [turned.height() as usize, turned.width() as usize];
        let wanted = planes(3, size, |channel, y, x| {
            f32::from(turned.get_pixel(x as u32, y as u32)[channel]) / 255.0
        });
        let name = format!("orientation-{number}.jpg");
        let found = decode(&bytes(&name), size, &ImageOptions::default()).unwrap();
        assert_close(&found, &wanted, 0.001, &name);
        let as_stored = ImageOptions { orient: false, ..ImageOptions::default() };
        let found = decode(&bytes(&name), SIZE, &as_stored).unwrap();
        assert_close(&found, &stored, 0.001, &name);
    }
    let found = decode(&bytes("orientation-6.png"), [24, 16], &ImageOptions::default()).unwrap();
    let wanted = planes(3, [24, 16], |channel, y, x| picture(channel, 15 - x, y));
    assert_close(&found, &wanted, 0.001, "PNG");
}

#[test]
fn resizing_is_that_of_pillow() {
    let wanted = decode(&bytes("resized.png"), [8, 8], &ImageOptions::default()).unwrap();
    let found = decode(&bytes("rgb.png"), [8, 8], &ImageOptions::default()).unwrap();
    assert_close(&found, &wanted, 1.001, "bytes");
    // An opaque picture with transparency goes through numbers instead of bytes.
    let mut opaque = image::RgbaImage::new(24, 16);
    for (x, y, pixel) in opaque.enumerate_pixels_mut() {
        *pixel = image::Rgba([x as u8 * 10, y as u8 * 15, 128, 255]);
    }
    let mut file = std::io::Cursor::new(Vec::new());
    opaque.write_to(&mut file, image::ImageFormat::Png).unwrap();
    let found = decode(file.get_ref(), [8, 8], &ImageOptions::default()).unwrap();
    assert_close(&found, &wanted, 1.001, "numbers");
}

#[test]
fn cropping_keeps_the_middle() {
    let options = ImageOptions { fit: Fit::Crop, ..ImageOptions::default() };
    let found = decode(&bytes("rgb.png"), [16, 16], &options).unwrap();
    assert_close(&found, &planes(3, [16, 16], |c, y, x| picture(c, y, x + 4)), 0.001, "wide");
    let found = decode(&bytes("rgb.png"), [8, 24], &options).unwrap();
    assert_close(&found, &planes(3, [8, 24], |c, y, x| picture(c, y + 4, x)), 0.001, "high");
}
