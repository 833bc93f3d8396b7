"""Word loader: by mammoth, after its parts are measured and before anything unpacks them."""

import zipfile
from io import BytesIO

import mammoth

from app.ingest.loaders.document import Block, DocumentRefused
from app.ingest.loaders.markup import html_blocks

# What a file may unpack to. The declared sizes bind: zipfile reads no byte more than declared.
MAX_UNPACKED_BYTES = 150_000_000
MAX_RATIO = 200
# Small files of a few repeated words pack better than any bomb of interest.
RATIO_FROM = 10_000_000
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Styles that mammoth's own list does not know.
STYLES = "p[style-name='Title'] => h1:fresh\np[style-name='Subtitle'] => p:fresh"


def read_docx(content: bytes) -> tuple[str, list[Block]]:
    """Headings, lists and tables by way of HTML; pictures are left out. Raises DocumentRefused."""
    if content.startswith(OLE):
        raise DocumentRefused("encrypted, or an old Word file; save it as .docx without a password")
    try:
        _measure(content)
        html = mammoth.convert_to_html(
            BytesIO(content),
            style_map=STYLES,
            include_embedded_style_map=False,
            convert_image=mammoth.images.img_element(lambda _: {}),
        ).value
    except DocumentRefused:
        raise
    # mammoth says of damage whatever Python says of it; its XML parser has errors of its own.
    except Exception as error:
        if isinstance(error, (MemoryError, RecursionError)):
            raise
        raise DocumentRefused("damaged Word file: it cannot be parsed") from error
    return html_blocks(f"<body>{html}</body>")


def _measure(content: bytes) -> None:
    """Raises DocumentRefused for a file that would unpack to too much; expat bounds entities."""
    with zipfile.ZipFile(BytesIO(content)) as archive:
        parts = archive.infolist()
        unpacked = sum(part.file_size for part in parts)
        if unpacked > MAX_UNPACKED_BYTES or unpacked > max(RATIO_FROM, MAX_RATIO * len(content)):
            raise DocumentRefused(
                f"would unpack to {unpacked / 1e6:,.0f} MB; a Word file may have"
                f" {MAX_UNPACKED_BYTES / 1e6:.0f} MB and {MAX_RATIO} times its size"
            )
        if any(part.flag_bits & 1 for part in parts):
            raise DocumentRefused("encrypted Word file: save it without a password")
