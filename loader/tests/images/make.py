"""Writes the image files of the tests: python3 make.py (Pillow 13, numpy)."""
import os
import numpy as np
from PIL import Image

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "files"))
y, x = np.mgrid[:16, :24]
rgb = np.stack([x * 10, y * 15, np.full_like(x, 128)], axis=2).astype(np.uint8)
picture = Image.fromarray(rgb)
for name, options in {
    "rgb.png": {}, "rgb.bmp": {}, "rgb.tiff": {"compression": "tiff_lzw"},
    "rgb.webp": {"lossless": True}, "baseline.jpg": {"quality": 95, "subsampling": 2},
    "progressive.jpg": {"quality": 95, "progressive": True},
}.items():
    picture.save(name, **options)
picture.resize((8, 8), Image.BILINEAR).save("resized.png")

grey = Image.fromarray((x * 10).astype(np.uint8))
grey.save("grey.png")
grey.save("grey.jpg", quality=95)

# Transparent on the left, opaque on the right, in steps.
alpha = (x // 6 * 85).astype(np.uint8)
Image.fromarray(np.dstack([rgb, alpha])).save("rgba.png")
Image.fromarray(np.dstack([rgb, alpha])).save("rgba.webp", lossless=True, exact=True)
Image.fromarray(np.dstack([x * 10, alpha]).astype(np.uint8), "LA").save("grey-alpha.png")

ramp = np.arange(65536, dtype=np.uint16).reshape(256, 256)
Image.fromarray(ramp).save("ramp16.png")

# Four colours, the last one transparent.
palette = Image.fromarray((x // 6).astype(np.uint8), "P")
palette.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9])
palette.save("palette.png", transparency=3)
second = palette.transpose(Image.FLIP_LEFT_RIGHT)
palette.save("two-frames.gif", save_all=True, append_images=[second])

Image.new("CMYK", (8, 8), (255, 0, 0, 0)).save("cyan-cmyk.jpg", quality=95)
Image.new("CMYK", (8, 8), (255, 0, 0, 0)).save("cyan-cmyk.tiff")

for orientation in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture.save(f"orientation-{orientation}.jpg", quality=95, subsampling=0, exif=exif)
exif = Image.Exif()
exif[0x0112] = 6
picture.save("orientation-6.png", exif=exif)
