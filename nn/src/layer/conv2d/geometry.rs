//! Where the values of a convolution are in the padded images.

use super::Conv2d;
use crate::kernel::conv::{Grid, Sweep};

/// A sweep with the place in the kernel of each of its taps, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Taps {
    pub(super) sweep: Sweep,
    /// Channels of a group in the source.
    pub(super) channels: usize,
    /// Whether all channels are one group, in which each is convolved by itself.
    pub(super) depthwise: bool,
    /// Row and column in the kernel, one per tap before taps that touch were joined.
    pub(super) kernel: Vec<[usize; 2]>,
}

/// An image with zeros around it, channels last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Height and width of the image itself.
    pub(super) size: [usize; 2],
    /// Rows and columns of zeros: top, left, bottom, right.
    pub(super) border: [usize; 4],
    pub(super) channels: usize,
}

impl Frame {
    pub(super) const fn height(&self) -> usize {
        self.border[0] + self.size[0] + self.border[2]
    }

    pub(super) const fn width(&self) -> usize {
        self.border[1] + self.size[1] + self.border[3]
    }

    /// Values of a row.
    pub(super) const fn row(&self) -> usize {
        self.width() * self.channels
    }

    /// Values of a sample.
    pub(super) const fn len(&self) -> usize {
        self.height() * self.row()
    }

    /// Where the image itself is.
    pub(super) const fn inside(&self) -> Grid {
        Grid {
            origin: self.border[0] * self.row() + self.border[1] * self.channels,
            sample: self.len(),
            row: self.row(),
            column: self.channels,
        }
    }

    pub(super) fn is_padded(&self) -> bool {
        self.border != [0; 4]
    }
}

/// What one axis of a convolution is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub(super) input: usize,
    pub(super) output: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    pub(super) dilation: usize,
    /// Zeros before the image.
    pub(super) before: usize,
}

/// The places of an axis that are equal modulo the stride: they are reached by the same taps.
struct Phase {
    first: usize,
    count: usize,
    /// Taps that reach them, and where in the output they do so for the first place; in the order
    /// of the latter.
    taps: Vec<(usize, isize)>,
}

impl Axis {
    fn phases(self) -> Vec<Phase> {
        let Self { input, kernel, stride, dilation, before, .. } = self;
        (0..stride.min(input))
            .map(|first| {
                let taps = (0..kernel).rev().filter_map(|tap| {
                    let at = (first + before) as isize - (tap * dilation) as isize;
                    let stride = stride as isize;
                    (at % stride == 0).then_some((tap, at / stride))
                });
                Phase { first, count: (input - first).div_ceil(stride), taps: taps.collect() }
            })
            .collect()
    }

    /// Zeros before and after the output that the taps of all phases reach.
    fn margins(self) -> [usize; 2] {
        let (mut before, mut after) = (0, 0);
        for Phase { count, taps, .. } in self.phases() {
            for (_, at) in taps {
                before = before.max(-at);
                after = after.max(at + count as isize - self.output as isize);
            }
        }
        [before as usize, after as usize]
    }
}

/// The frame of the output gradient, for the gradient by data.
pub(super) fn gradient_frame(channels: usize, [y, x]: [Axis; 2]) -> Frame {
    let ([top, bottom], [left, right]) = (y.margins(), x.margins());
    Frame { size: [y.output, x.output], border: [top, left, bottom, right], channels }
}

impl Conv2d {
    /// The sweep of the forward direction, over the first group of channels.
    pub(super) fn forward_taps(&self) -> Taps {
        let Self { frame, axes: [y, x], output: [filters, height, width], .. } = *self;
        let run = self.group_inputs();
        let at =
            |[ky, kx]: [usize; 2]| ky * y.dilation * frame.row() + kx * x.dilation * frame.channels;
        let kernel: Vec<_> =
            (0..y.kernel).flat_map(|ky| (0..x.kernel).map(move |kx| [ky, kx])).collect();
        let sweep = Sweep {
            size: [height, width],
            from: Grid {
                origin: 0,
                sample: frame.len(),
                row: y.stride * frame.row(),
                column: x.stride * frame.channels,
            },
            to: Grid {
                origin: 0,
                sample: height * width * filters,
                row: width * filters,
                column: filters,
            },
            taps: kernel.iter().copied().map(at).collect(),
            run,
        };
        Taps {
            sweep: joined(sweep, x.kernel),
            channels: run,
            depthwise: self.is_depthwise(),
            kernel,
        }
    }

    /// The sweeps of the gradient by data, over the first group of channels.
    pub(super) fn data_taps(&self) -> Vec<Taps> {
        let Self { gradient, axes: [y, x], input: [channels, height, width], .. } = *self;
        let mut all = Vec::new();
        for rows in y.phases() {
            for columns in x.phases() {
                let at = |(ky, at_y): (usize, isize), (kx, at_x): (usize, isize)| {
                    let row = (at_y + gradient.border[0] as isize) as usize;
                    let column = (at_x + gradient.border[1] as isize) as usize;
                    ([ky, kx], row * gradient.row() + column * gradient.channels)
                };
                let pairs =
                    rows.taps.iter().flat_map(|&y| columns.taps.iter().map(move |&x| (y, x)));
                let (kernel, taps) = pairs.map(|(y, x)| at(y, x)).unzip();
                let sweep = Sweep {
                    size: [rows.count, columns.count],
                    from: Grid {
                        origin: 0,
                        sample: gradient.len(),
                        row: gradient.row(),
                        column: gradient.channels,
                    },
                    to: Grid {
                        origin: (rows.first * width + columns.first) * channels,
                        sample: height * width * channels,
                        row: y.stride * width * channels,
                        column: x.stride * channels,
                    },
                    taps,
                    run: self.group_filters(),
                };
                all.push(Taps {
                    sweep: joined(sweep, columns.taps.len()),
                    channels: self.group_filters(),
                    depthwise: self.is_depthwise(),
                    kernel,
                });
            }
        }
        all
    }
}

/// The same sweep with the taps of each kernel row joined to one, if they touch.
fn joined(mut sweep: Sweep, along: usize) -> Sweep {
    let touch = |row: &[usize]| row.windows(2).all(|pair| pair[0] + sweep.run == pair[1]);
    if along > 1 && sweep.taps.chunks_exact(along).all(touch) {
        sweep.taps = sweep.taps.iter().copied().step_by(along).collect();
        sweep.run *= along;
    }
    sweep
}
