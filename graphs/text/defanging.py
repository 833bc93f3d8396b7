"""Defanging: addresses and markup of a line made harmless, but for links to known sources.

A space breaks markup (`] (`, `] :`, `! [`, `< img`), addresses are written so that nothing links
them (`hxxps://example[.]com`). Nothing else changes, so a line stays the kind of line it is.
References: CommonMark 0.31, GFM's autolinks, and the hosts that linkify-it links by default.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

GRAPHIC = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "`")
"""What words and addresses of ASCII are made of."""
LOOKS_AHEAD = 16
"""No piece of a line depends on more characters behind the word it stands in."""

KINDS: Mapping[str, tuple[str, str]] = {
    "image": ("image", "images"),
    "link": ("link", "links"),
    "address": ("address", "addresses"),
    "tag": ("HTML tag", "HTML tags"),
}

_CHARACTER = r"""[^\s()<>\[\]{}"\\`^|]"""
_SOURCE = re.compile(rf"https?://(?:{_CHARACTER}|\({_CHARACTER}*\))+")
# Behind an address no renderer takes these, to the end of the word, for a part of it that matters.
_CLOSERS = r"""[).,;:!?'"*_~}。，、；：！？）】》」』”’…]{0,4}+"""
_FRAGMENT = r"(?:#[A-Za-z0-9_!$%*+,./:;=?@~-]*)?"

_SCHEME = r"(?i:https?|ftps?|wss?)"
_NO_SCHEME = rf"(?!{_SCHEME}\\?:)"
_NAME = (
    rf"(?<![A-Za-z0-9._-])(?=[A-Za-z0-9_-]*\\?\.)"
    rf"(?:{_NO_SCHEME}(?:[A-Za-z0-9._-]|\\(?=\.)))+"
)
_AUTHORITY = rf"(?:{_NO_SCHEME}(?:[A-Za-z0-9._~%$'*+,;=:@-]|\\(?=\.)))*"
_REFERENCE = r"&(?=(?:#(?P<code>[xX][0-9A-Fa-f]{1,6}|\d{1,7})|colon|sol|period|bsol);)"
_SCRIPT = r"(?i:javascript|vbscript|data(?=:(?:[\w-]+/|[;,]))):"
_MARKUP = (
    rf"(?P<scheme>{_SCHEME})(?P<slashes>\\?:\\?/\\?/)(?P<authority>{_AUTHORITY})"
    rf"|(?P<name>{_NAME})"
    r"|(?P<slash>(?<![A-Za-z0-9:/])/(?=/[^\s/]))"
    rf"|(?P<colon>(?<=[(<]){_SCRIPT}(?=\S))"
    r"|(?P<tag><(?=[A-Za-z/!?]))"
    r"|(?P<image>!(?=\[)(?!\[(?:\d{1,3}|\.)\](?!\()))"  # "Great![1]" cites
    r"|(?P<link>\](?=\())"
    r"|(?P<definition>\](?=:))"
    rf"|(?P<reference>{_REFERENCE})"
)
# What is drawn may be HTML or a script, which read addresses in more ways than Markdown does.
_MARKUP_OF_DRAWINGS = re.compile(
    rf"(?P<scheme>{_SCHEME})(?P<slashes>:[\\/]*)(?P<authority>{_AUTHORITY})"
    rf"|(?P<name>{_NAME})"
    rf"|(?P<colon>{_SCRIPT}|(?<! )(?<!(?i:xp))(?<!(?i:xps)):(?=[\\/]{{2}}))"
    r"|(?P<slash>(?<![A-Za-z0-9:])(?<!\[:\])[\\/](?=[\\/][^\s\\/*]))"
    rf"|(?P<reference>{_REFERENCE})"
)

_TLD = re.compile(
    r"a[cdefgilmnoqrstuwxz]|b[abdefghijmnorstvwyz]|c[acdfghiklmnoruvwxyz]|d[ejkmoz]|e[cegrstu]"
    r"|f[ijkmor]|g[abdefghilmnpqrstuwy]|h[kmnrtu]|i[delmnoqrst]|j[emop]|k[eghimnprwyz]"
    r"|l[abcikrstuvy]|m[acdeghklmnopqrstuvwxyz]|n[acefgilopruz]|om|p[aefghklmnrstwy]|qa|r[eosuw]"
    r"|s[abcdeghijklmnortuvxyz]|t[cdfghjklmnortvwz]|u[agksyz]|v[aceginu]|w[fs]|y[et]|z[amw]"
    r"|biz|com|edu|gov|net|org|pro|web|xxx|aero|asia|coop|info|museum|name|shop|xn--[a-z0-9-]+",
    re.IGNORECASE,
)
"""The top-level domains that linkify-it knows unasked."""
_WWW = re.compile(r"(?<![a-z0-9])www\\?\.", re.IGNORECASE)
_BETWEEN_HOSTS = re.compile(r"\.(?=[._])|\\")
_LABEL_BEFORE = re.compile(r"\.[\w-]+\Z")
_PATH = re.compile(r"(?::\d+)?[/?#]\S")
_DOT = re.compile(r"\\?\.(?=[\w-])|(?<=www)\\?\.", re.IGNORECASE)
# What surely is the text of a link; behind anything else its address may be a bare one.
_LABEL = re.compile(r"(?<!\\)\[(?:[^\[\]\\`<>$]|`[^\[\]\\`<>$]+`)*\Z")
_TWO_LETTERS = re.compile(r"[^\W\d_]{2}")


class Defanger:
    """Makes lines harmless; `counts` says how much of which kind was not so."""

    def __init__(self, sources: Iterable[str]) -> None:
        """`sources`: addresses that stay links, with any fragment taken off them."""
        addresses = {source.partition("#")[0].rstrip("/") for source in sources}
        self._sources = sorted(filter(_SOURCE.fullmatch, addresses), key=len, reverse=True)
        source = f"(?:{'|'.join(map(re.escape, self._sources)) or '(?!)'})/?"
        self._markup = re.compile(
            rf"(?P<link_to_source>\]\({source}){_FRAGMENT}(?=\))"
            rf"|(?P<autolink>(?<!\\)<{source})(?=>)"
            rf"|(?P<address>(?<![A-Za-z0-9]){source}){_FRAGMENT}"
            rf"(?:(?={_CLOSERS}(?:\s|\Z))|(?P<goes_on>(?=[^!-~]|[)\[\]}}|>\"`])))"
            rf"|{_MARKUP}"
        )
        self._source_last = re.compile(rf"{source}(?:#[!-~]*)?{_CLOSERS}")
        self.counts: Counter[str] = Counter()

    def finds(self, line: str, at: int) -> bool:
        """Whether anything in the line from `at` on is markup or an address."""
        return self._markup.search(line, at) is not None

    def settled(self, line: str, at: int) -> int:
        """Up to where no later text can change what the line becomes from `at` on.

        That is where its last word of ASCII begins, or an address that may be one of the sources.
        """
        end = len(line.rstrip(GRAPHIC))
        begins = max(line.rfind(" "), line.rfind("\t"), at - 1) + 1
        while self._sources and (begins := line.find("http", begins)) >= 0:
            tail = line[begins:]
            if self._source_last.fullmatch(tail) or any(s.startswith(tail) for s in self._sources):
                end = min(end, len(line[:begins].rstrip(GRAPHIC)))
            begins += 1
        return max(at, end)

    def harmless(self, line: str, at: int, stop: int, *, is_drawn: bool = False) -> str:
        """The line from `at` to `stop`, where it must be settled; what is around it counts."""
        pieces, markup = [], _MARKUP_OF_DRAWINGS if is_drawn else self._markup
        for match in markup.finditer(line, at, stop + LOOKS_AHEAD):
            if match.start() >= stop:
                break
            pieces += [line[at : match.start()], self._broken(match)]
            at = match.end()
        return "".join([*pieces, line[at:stop]])

    def _broken(self, match: re.Match[str]) -> str:
        parts = {name: text for name, text in match.groupdict().items() if text is not None}
        if address := parts.get("autolink") or parts.get("address"):
            return f"{address} " if "goes_on" in parts else address
        if link := parts.get("link_to_source"):
            is_link = _LABEL.search(match.string[: match.start()])
            return link if is_link else f"] {link[1:]} "
        if _is_harmless(match, parts):
            return match[0]
        self._count(match, parts)
        if scheme := parts.get("scheme"):
            after = match.string[match.end() :][:1]
            return _defanged(scheme) + parts["slashes"] + _undotted(parts["authority"], after)
        if name := parts.get("name"):
            return _undotted(name, match.string[match.end() :][:1])
        if "colon" in parts:
            return f"{match[0][:-1]} :"
        return f"{match[0]} "

    def _count(self, match: re.Match[str], parts: Mapping[str, str]) -> None:
        named = (kind for kind in KINDS if kind in parts)
        kind = "link" if "definition" in parts else next(named, "address")
        # Nobody reads a tag in a<b.
        if kind != "tag" or not match.string[: match.start()][-1:].isalnum():
            self.counts[kind] += 1


def _is_harmless(match: re.Match[str], parts: Mapping[str, str]) -> bool:
    if "name" in parts:
        return not _is_linked(match.string, match.start(), match.end())
    if "definition" in parts:
        return _is_within_sentence(match.string[: match.start()])
    if code := parts.get("code"):
        number = int(code[1:], 16) if code[0] in "xX" else int(code)
        return number > 127 or not (chr(number).isalnum() or chr(number) in ":./\\")
    return False


def _is_linked(line: str, start: int, end: int) -> bool:
    """Whether a name without a scheme is an address to linkify-it, and holds more than a name.

    Two labels with nothing behind them stay: a file (`README.md`) or a product (`ASP.NET`) looks
    like that, and what was said has no room in them.
    """
    raw, before = line[start:end], line[:start][-1:]
    name = raw.replace("\\", "")
    if _WWW.search(name):
        return True
    names = [name, *_BETWEEN_HOSTS.split(raw)]
    if before in ("@", "/", ":") and name[0] != "_":  # a path, or an address of mail
        names = names[2:]
    is_dotted = name[0] == "." and not before.isascii() and not before.isspace()
    goes_on = is_dotted or _LABEL_BEFORE.search(line[:start][-64:])  # of labels beyond ASCII
    hosts = [part.strip("._-").split(".") for part in names]
    least = 1 if goes_on else 2 if _PATH.match(line, end) else 3
    return any(_TLD.fullmatch(labels[-1]) and len(labels) >= least for labels in hosts)


def _is_within_sentence(line: str) -> bool:
    """Whether `[…]:` stands behind words of its line, where it defines no link."""
    line = line.replace("[.]", "")
    opening = line.rfind("[")
    is_label = opening > 0 and line[opening - 1] != "\\" and "]" not in line[opening:]
    return is_label and _TWO_LETTERS.search(line, 0, opening) is not None


def _undotted(name: str, after: str) -> str:
    """The name with `[.]` for its dots, of which no link is made with what comes `after` it."""
    name = _DOT.sub("[.]", name + after).removesuffix(after)
    return f"{name} " if name.endswith("[.]") and after in ("(", "[", ":") else name


def _defanged(scheme: str) -> str:
    """hxxp, fxp, wxs."""
    return re.sub("t|(?<=w)(?=s)", "x", scheme.replace("T", "X"))
