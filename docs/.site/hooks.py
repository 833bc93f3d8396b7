"""Hooks of the handbook's site: a language's index page is its part of the menu."""

import re
from pathlib import Path
from typing import Any

LANGUAGES = {"English": "en", "中文": "zh"}
SECTION, ENTRY = re.compile(r"^## (.+)$"), re.compile(r"^- \[(.+?)\]\((.+?\.md)\)")
OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./){3}([^)]+)\)")
FENCE = re.compile(r"^( *```\w+) [^\n`]+$", re.MULTILINE)


def on_config(config: Any) -> Any:
    docs = Path(config["docs_dir"])
    config["nav"] = [{name: _menu(docs / folder)} for name, folder in LANGUAGES.items()]
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Without what the tests read behind a code block's language.

    What the repository holds beside the handbook is named, not linked: the site has none of it.
    """
    return OUTSIDE.sub(r"\1 (`\2`)", FENCE.sub(r"\1", markdown))


def on_post_build(config: Any) -> None:
    """The root leads to the language of the browser."""
    (Path(config["site_dir"]) / "index.html").write_text(
        "<!doctype html><meta charset='utf-8'><title>self-crag</title>"
        "<script>location.replace((navigator.language.startsWith('zh') ? 'zh' : 'en')"
        " + '/index.html')</script>"
        "<a href='en/index.html'>English</a> <a href='zh/index.html'>中文</a>\n",
        encoding="utf-8",
    )


def _menu(folder: Path) -> list[Any]:
    """The index page itself, and its lists of pages under their headings."""
    sections: dict[str, list[dict[str, str]]] = {}
    heading = ""
    for line in (folder / "index.md").read_text("utf-8").splitlines():
        if found := SECTION.match(line):
            heading = found[1]
        elif found := ENTRY.match(line):
            title, page = found.groups()
            sections.setdefault(heading, []).append({title: f"{folder.name}/{page}"})
    return [f"{folder.name}/index.md", *({name: pages} for name, pages in sections.items())]
