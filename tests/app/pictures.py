"""Pictures drawn by a script, and documents by hand that show them."""

import io
import random
from functools import cache

from PIL import Image, ImageDraw

from tests.app.ingest.word import word

DRAWN = (
    '<w:p><w:r><w:drawing><wp:inline xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/'
    'wordprocessingDrawing"><wp:docPr id="1" name="p" descr="{alt}"/>'
    '<a:graphic xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:graphicData>'
    '<pic:pic xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:blipFill>'
    '<a:blip xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
    ' r:embed="rId5"/></pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline>'
    "</w:drawing></w:r></w:p>"
)
RELATED = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    '<Relationship Id="rId5" Target="media/p.png" Type="http://schemas.openxmlformats.org/'
    'officeDocument/2006/relationships/image"/></Relationships>'
)


@cache
def drawn(seed: int, size: tuple[int, int] = (240, 160)) -> Image.Image:
    """Discs of random colours: no two seeds look alike."""
    dice = random.Random(seed)
    picture = Image.new("RGB", size, "white")
    for _ in range(10):
        x, y, across = dice.randrange(size[0]), dice.randrange(size[1]), dice.randrange(20, 120)
        colour = tuple(dice.randrange(256) for _ in range(3))
        ImageDraw.Draw(picture).ellipse((x - across, y - across, x, y), fill=colour)
    return picture


def encoded(picture: Image.Image, form: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()


def word_with(body: str, picture: bytes, alt: str) -> bytes:
    parts = {"media/p.png": picture, "_rels/document.xml.rels": RELATED.encode()}
    return word(body + DRAWN.format(alt=alt), **parts)


def pdf_with(lines: list[str], picture: Image.Image) -> bytes:
    """A page of these lines and the picture, as JPEG."""
    shown = " ".join(f"1 0 0 1 40 {700 - 20 * n} Tm ({line}) Tj" for n, line in enumerate(lines))
    drawing = f"BT /F 12 Tf {shown} ET q 200 0 0 130 40 400 cm /I Do Q".encode()
    jpeg = encoded(picture, "JPEG")
    width, height = picture.size
    image = f"/Type /XObject /Subtype /Image /Width {width} /Height {height} /BitsPerComponent 8"
    image += " /ColorSpace /DeviceRGB /Filter /DCTDecode"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
        b" /Resources << /Font << /F 5 0 R >> /XObject << /I 6 0 R >> >> >>",
        b"<< /Length %d >> stream\n%s\nendstream" % (len(drawing), drawing),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< %s /Length %d >> stream\n%s\nendstream" % (image.encode(), len(jpeg), jpeg),
    ]
    file, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(file))
        file += b"%d 0 obj %s endobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
    return file + head + table + end % (len(objects) + 1, len(file))
