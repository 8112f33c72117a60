"""Discs of noise in a random place: the label is the quarter that the centre is in.

For a trainer with the fields image: f32[1, 28, 28] and label: u8[]; tried alone by

    millrace produce --field image:f32:1x28x28 --field label:u8 -- python3 example.py
"""

import numpy

from millrace_producer import producer


@producer
def make(epoch, index, seed):
    rng = numpy.random.default_rng(seed)
    centre = rng.uniform(6, 22, 2)
    rows, columns = numpy.ogrid[:28, :28]
    inside = (rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 < rng.uniform(9, 36)
    image = rng.uniform(0.5, 1.0, (1, 28, 28)).astype("float32") * inside
    label = numpy.uint8(2 * (centre[0] >= 14) + (centre[1] >= 14))
    return image, label
