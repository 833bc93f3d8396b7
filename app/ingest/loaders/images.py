"""Image loader: hostile or not, an image becomes plain pixels of bounded size, or is refused.

It runs where files of binary formats are read: apart from the service, within bounds of time and
memory. What comes out is encoded anew, so that nothing but pixels gets through: no EXIF, no script.
"""

import re
import warnings
from functools import cache
from io import BytesIO

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from app.ingest.loaders.document import DocumentRefused
from app.retrieval.images import MAX_BYTES, PlainImage

FORMATS = ("PNG", "JPEG", "WEBP", "GIF")
MAX_PIXELS = 40_000_000
"""Beyond it an image is refused before its pixels are unpacked."""
TOO_MANY_PIXELS = f"more than {MAX_PIXELS // 1_000_000} million pixels; make it smaller"
MAX_SIDE, MIN_SIDE = 1600, 24
"""Larger ones are made smaller; smaller ones are icons, which tell nothing."""
QUALITY = 88
HASH_SIDE, HASH_CELLS = 32, 8
FLAT = 2.0
"""Grey values of so little spread have no pattern to be known by."""
_MARKUP = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<(?:\?xml|!doctype|!--|svg|html)", re.IGNORECASE)


def read_image(content: bytes) -> PlainImage:
    """Raises DocumentRefused, in words, for all that is no still image within bounds."""
    if len(content) > MAX_BYTES:
        raise DocumentRefused(f"image too large: more than {MAX_BYTES / 1e6:.0f} MB")
    if _MARKUP.match(content):
        raise DocumentRefused("an SVG or other markup may hold script: save it as PNG")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of damage that is refused below, or is harmless
            with Image.open(BytesIO(content), formats=FORMATS) as opened:
                _check(opened)
                plain = _pixels(opened)
    except (DocumentRefused, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise DocumentRefused(TOO_MANY_PIXELS) from error
    except UnidentifiedImageError as error:
        raise DocumentRefused("no PNG, JPEG, WebP or GIF, or damaged") from error
    # Pillow says of damage whatever its decoders say.
    except Exception as error:
        raise DocumentRefused("damaged image: it cannot be decoded") from error
    encoded = BytesIO()
    plain.save(encoded, "WEBP", quality=QUALITY, exact=True)
    return PlainImage(encoded.getvalue(), plain.width, plain.height, perceptual_hash(plain))


def _check(opened: Image.Image) -> None:
    if opened.width * opened.height > MAX_PIXELS:
        raise DocumentRefused(TOO_MANY_PIXELS)
    if min(opened.size) < MIN_SIDE:
        raise DocumentRefused(f"an icon: its sides need at least {MIN_SIDE} pixels")
    # Photographs of some telephones hold a second, smaller picture (MPO).
    if opened.format != "MPO" and getattr(opened, "is_animated", False):
        raise DocumentRefused("animated: save one of its frames")


def _pixels(opened: Image.Image) -> Image.Image:
    """Upright, of bounded size, and a canvas of its own: no metadata comes along."""
    opened.draft("RGB", (MAX_SIDE, MAX_SIDE))
    upright = ImageOps.exif_transpose(opened)
    mode = "RGBA" if upright.has_transparency_data else "RGB"
    sized = upright.convert(mode)
    sized.thumbnail((MAX_SIDE, MAX_SIDE))
    plain = Image.new(mode, sized.size)
    plain.paste(sized)
    return plain


def perceptual_hash(image: Image.Image) -> str:
    """The signs of an image's lowest frequencies about their median (pHash), in hexadecimal.

    Copies that were scaled, compressed or slightly cropped differ in few bits.
    """
    canvas = Image.new("RGB", image.size, "white")
    canvas.paste(image, mask=image if image.mode == "RGBA" else None)
    small = canvas.convert("L").resize((HASH_SIDE, HASH_SIDE), Image.Resampling.LANCZOS)
    grey = np.asarray(small, dtype=np.float64)
    if grey.std() < FLAT:
        return ""
    cosines = _cosines()
    lowest = (cosines @ grey @ cosines.T).ravel()[1:]
    bits = "".join("1" if value > np.median(lowest) else "0" for value in lowest)
    return f"{int(bits, 2):016x}"


@cache
def _cosines() -> npt.NDArray[np.float64]:
    """The first rows of the discrete cosine transform."""
    frequency = np.arange(HASH_CELLS)[:, None]
    rows: npt.NDArray[np.float64] = np.cos(
        np.pi / HASH_SIDE * (np.arange(HASH_SIDE)[None, :] + 0.5) * frequency
    )
    return rows
