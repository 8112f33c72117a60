//! Transforms that move pixels: values and, where pixels have labels, labels with them.

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

/// A sample in the middle of its transforms: planes of `height` x `width`.
pub(super) struct Picture<'a> {
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) values: &'a mut Vec<f32>,
    /// Planes of labels, or one label that stays what it is.
    pub(super) labels: &'a mut Vec<u8>,
    pub(super) label_planes: bool,
    /// Room to work in.
    pub(super) spare: &'a mut Vec<f32>,
    pub(super) spare_labels: &'a mut Vec<u8>,
    pub(super) resizer: &'a mut Resizer,
}

impl Picture<'_> {
    /// Every pixel comes from the place that `from` gives for it, or is 0.
    pub(super) fn rearrange(&mut self, from: impl Fn(usize, usize) -> Option<usize>) {
        let size = [self.height, self.width];
        gather(self.values, self.spare, size, &from);
        if self.label_planes {
            gather(self.labels, self.spare_labels, size, &from);
        }
    }

    pub(super) fn flip_horizontally(&mut self) {
        let width = self.width;
        self.rearrange(|y, x| Some(y * width + width - 1 - x));
    }

    pub(super) fn flip_vertically(&mut self) {
        let (height, width) = (self.height, self.width);
        self.rearrange(|y, x| Some((height - 1 - y) * width + x));
    }

    /// Moves the picture down and to the right; what comes in from beyond the edge is 0.
    pub(super) fn shift(&mut self, down: isize, right: isize) {
        let (height, width) = (self.height, self.width);
        self.rearrange(|y, x| {
            let y = y.checked_add_signed(-down).filter(|&y| y < height)?;
            let x = x.checked_add_signed(-right).filter(|&x| x < width)?;
            Some(y * width + x)
        });
    }

    /// Turns the picture about its middle, anticlockwise by `angle` in radians: values between
    /// the four pixels around, labels of the nearest one. What was beyond the edge is 0.
    pub(super) fn rotate(&mut self, angle: f32) {
        let (height, width) = (self.height, self.width);
        let (sin, cos) = angle.sin_cos();
        let middle = [(height - 1) as f32 / 2.0, (width - 1) as f32 / 2.0];
        let source = |y: usize, x: usize| {
            let (y, x) = (y as f32 - middle[0], x as f32 - middle[1]);
            [middle[0] + cos * y + sin * x, middle[1] - sin * y + cos * x]
        };
        self.spare.clear();
        for plane in self.values.chunks_exact(height * width) {
            for y in 0..height {
                self.spare.extend((0..width).map(|x| between(plane, height, width, source(y, x))));
            }
        }
        std::mem::swap(self.values, self.spare);
        if self.label_planes {
            gather(self.labels, self.spare_labels, [height, width], &|y, x| {
                let [y, x] = source(y, x).map(f32::round);
                let inside = y >= 0.0 && x >= 0.0 && y < height as f32 && x < width as f32;
                inside.then(|| y as usize * width + x as usize)
            });
        }
    }

    /// Makes the picture `height` x `width`: values averaged with the weights of a triangle,
    /// labels of the nearest pixel.
    pub(super) fn resize(&mut self, height: usize, width: usize) {
        let (old_height, old_width) = (self.height, self.width);
        if (old_height, old_width) == (height, width) {
            return;
        }
        let planes = self.values.len() / (old_height * old_width);
        self.spare.clear();
        self.spare.resize(planes * height * width, 0.0);
        let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::Bilinear));
        let from = self.values.chunks_exact(old_height * old_width);
        for (from, to) in from.zip(self.spare.chunks_exact_mut(height * width)) {
            let (from, to) = (bytemuck::cast_slice(from), bytemuck::cast_slice_mut(to));
            let sizes = [old_width, old_height, width, height].map(|size| size as u32);
            let from = ImageRef::new(sizes[0], sizes[1], from, PixelType::F32);
            let to = Image::from_slice_u8(sizes[2], sizes[3], to, PixelType::F32);
            let (from, mut to) = (
                from.expect("a plane has as many values as pixels"),
                to.expect("a plane has as many values as pixels"),
            );
            self.resizer.resize(&from, &mut to, &options).expect("both are of one kind");
        }
        std::mem::swap(self.values, self.spare);
        if self.label_planes {
            let nearest = |place: usize, new: usize, old: usize| (2 * place + 1) * old / (2 * new);
            self.spare_labels.clear();
            for plane in self.labels.chunks_exact(old_height * old_width) {
                for y in 0..height {
                    let row = &plane[nearest(y, height, old_height) * old_width..];
                    let of = |x| row[nearest(x, width, old_width)];
                    self.spare_labels.extend((0..width).map(of));
                }
            }
            std::mem::swap(self.labels, self.spare_labels);
        }
        (self.height, self.width) = (height, width);
    }
}

fn gather<T: Copy + Default>(
    planes: &mut Vec<T>,
    spare: &mut Vec<T>,
    [height, width]: [usize; 2],
    from: &impl Fn(usize, usize) -> Option<usize>,
) {
    spare.clear();
    for plane in planes.chunks_exact(height * width) {
        for y in 0..height {
            spare.extend((0..width).map(|x| from(y, x).map_or(T::default(), |at| plane[at])));
        }
    }
    std::mem::swap(planes, spare);
}

/// The value between the four pixels around a place; those beyond the edge are 0.
fn between(plane: &[f32], height: usize, width: usize, [y, x]: [f32; 2]) -> f32 {
    let (top, left) = (y.floor(), x.floor());
    let (down, right) = (y - top, x - left);
    let at = |y: f32, x: f32| {
        let inside = y >= 0.0 && x >= 0.0 && y < height as f32 && x < width as f32;
        if inside { plane[y as usize * width + x as usize] } else { 0.0 }
    };
    let upper = at(top, left) * (1.0 - right) + at(top, left + 1.0) * right;
    let lower = at(top + 1.0, left) * (1.0 - right) + at(top + 1.0, left + 1.0) * right;
    upper * (1.0 - down) + lower * down
}
