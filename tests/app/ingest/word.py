"""Word files made by hand: the least parts that Word itself would open."""

import io
import zipfile

XML = '<?xml version="1.0" encoding="UTF-8"?>'
SCHEMAS = "http://schemas.openxmlformats.org"
W = f"{SCHEMAS}/wordprocessingml/2006/main"
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
RELATED = "application/vnd.openxmlformats-package.relationships+xml"
CONTENT_TYPES = (
    f'{XML}<Types xmlns="{SCHEMAS}/package/2006/content-types">'
    f'<Default Extension="rels" ContentType="{RELATED}"/>'
    f'<Override PartName="/word/document.xml" ContentType="{MAIN}"/></Types>'
)
RELATIONS = (
    f'{XML}<Relationships xmlns="{SCHEMAS}/package/2006/relationships"><Relationship Id="rId1"'
    f' Type="{SCHEMAS}/officeDocument/2006/relationships/officeDocument"'
    ' Target="word/document.xml"/></Relationships>'
)


def paragraph(text: str, style: str = "") -> str:
    styled = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{styled}<w:r><w:t>{text}</w:t></w:r></w:p>"


def table(*rows: tuple[str, ...]) -> str:
    cells = (
        "<w:tr>" + "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row) + "</w:tr>"
        for row in rows
    )
    return f"<w:tbl>{''.join(cells)}</w:tbl>"


def word(body: str, prolog: str = "", **parts: bytes) -> bytes:
    """`parts` are further parts, by their names within word/."""
    document = (
        f'<?xml version="1.0" encoding="UTF-8"?>{prolog}<w:document xmlns:w="{W}">'
        f"<w:body>{body}</w:body></w:document>"
    )
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", CONTENT_TYPES)
        archive.writestr("_rels/.rels", RELATIONS)
        archive.writestr("word/document.xml", document)
        for name, content in parts.items():
            archive.writestr(f"word/{name}", content)
    return file.getvalue()
