"""Pages of manuals, in each form that is read, as rows of questions and answers."""

import gzip
import json
from dataclasses import asdict, replace
from hashlib import sha256
from pathlib import Path

import pytest

from evaluator.data.manuals import (
    Manual,
    ManualRow,
    UserQuestion,
    manuals,
    rows,
    with_user_questions,
)
from evaluator.data.records import read_file

HTML = """<html><head><title>Kettle</title></head><body>
<div class="navheader"><a href="a.html">Prev</a> Kettle <a href="b.html">Next</a></div>
<h1>Chapter 2. The kettle</h1>
<ul><li><a href="#fill">2.1. How do I fill the kettle?</a></li></ul>
<h2>2.1. How do I fill the kettle?<a class="headerlink" href="#fill">¶</a></h2>
<p>Lift the lid with two fingers and pour the water in, as in this line:</p>
<pre>  pour --litres 1
    wait</pre>
<ol><li>Close the lid afterwards.</li><li><p>Press the button on the handle.</p></li></ol>
<p>What was left, see below:</p>
<h2>2.2. Switches of the base plate</h2>
<dl><dt>--hold</dt><dd>A: Keeps the water warm for an hour, and switches the plate off when the
kettle is lifted from it.</dd><dt>--quick</dt><dd>
<table><tr><td>Watts</td><td>3000</td></tr></table>
Boils with the full power of the plate, which takes about a minute and a half.</dd></dl>
<div class="navfooter"><a href="b.html">Next</a></div></body></html>"""

MAN = r""".TH KETTLE 1 "May 2020"
.SH 名称
kettle \- 烧水
.SH 选项
.TP
.BR \-\-hold = \fI分钟\fR
在烧开之后让水保持热度，直到所说的
时间过去为止，最长可以保持一百二十分钟。
.PP
\-\-quick
.RS 4
用最大的功率烧水，大约需要一分半钟的时间，适合家里有客人等着喝茶的时候使用。
.nf
kettle \-\-quick \en
.fi
.RE
"""

MALLARD = """<page xmlns="http://projectmallard.org/1.0/" type="topic" id="kettle">
<info><desc>About kettles</desc></info><title>怎样给水壶除垢？</title>
<p>水壶用久了会有水垢，请按照下面的<link xref="x">步骤</link>除垢，每个月做一次就足够了：</p>
<steps><item><p>倒入白醋。</p></item><item><p>烧开并等待一个小时。</p></item></steps>
<section><title>Not translated</title><p>This paragraph of the page was left in English by the
translators, so that nothing of it is a row.</p></section></page>"""


def read(folder: Path, name: str, text: str, language: str) -> list[ManualRow]:
    path = folder / "kettle/usr/share/doc" / name
    path.parent.mkdir(parents=True)
    raw = text.encode()
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return rows(Manual("kettle", language, "train", "MIT", "doc/*", "Kettles"), folder)


def test_html_gives_questions_with_listings_and_entries_apart(tmp_path: Path) -> None:
    fill, hold, quick = read(tmp_path, "kettle.html", HTML, "en")

    assert (fill.question, fill.kind) == ("How do I fill the kettle?", "faq")
    assert fill.title == "Kettles › The kettle"
    assert fill.answer == (
        "Lift the lid with two fingers and pour the water in, as in this line:\n\n"
        "pour --litres 1\n  wait\n1. Close the lid afterwards.\n2. Press the button on the handle."
    )
    assert [hold.position, quick.position] == [2, 3]
    assert hold.kind == quick.kind == "option"
    assert "--hold" in hold.question
    assert hold.answer.startswith("Keeps the water warm")
    assert quick.answer.startswith("Watts | 3000\n")


def test_entries_of_a_man_page_are_options(tmp_path: Path) -> None:
    hold, quick = read(tmp_path, "kettle.1.gz", MAN, "zh")

    assert "--hold=分钟" in hold.question
    assert "kettle" in hold.question
    assert hold.answer == (
        "在烧开之后让水保持热度，直到所说的时间过去为止，最长可以保持一百二十分钟。"
    )
    assert "--quick" in quick.question
    assert quick.answer.endswith("使用。\n\nkettle --quick \\n")


def test_mallard_keeps_what_was_translated(tmp_path: Path) -> None:
    (row,) = read(tmp_path, "kettle.page", MALLARD, "zh")

    assert (row.question, row.kind) == ("怎样给水壶除垢？", "faq")
    assert row.answer == (
        "水壶用久了会有水垢，请按照下面的步骤除垢，每个月做一次就足够了：\n"
        "1. 倒入白醋。\n2. 烧开并等待一个小时。"
    )


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_package_stands_on_one_side_and_a_third_are_held(language: str) -> None:
    sides = {(manual.package, manual.side) for manual in manuals()}
    of_language = {(m.package, m.side) for m in manuals() if m.language == language}
    held = [package for package, side in of_language if side == "held"]

    assert len(sides) == len({package for package, _ in sides})
    assert len(of_language) / 4 < len(held) < len(of_language) / 2


def test_an_entry_that_was_asked_for_is_two_records(tmp_path: Path) -> None:
    read_rows = read(tmp_path, "kettle.html", HTML, "en")
    hold = read_rows[1]
    at = hold.answer.index("an hour")
    digest = sha256(hold.answer.encode()).hexdigest()[:8]
    known = UserQuestion(hold.id, "How long does my tea stay hot?", [[at, at + 7]], digest)
    changed = replace(known, entry="00000000")
    done = [*with_user_questions(read_rows, {hold.id: known, read_rows[2].id: changed})]
    path = tmp_path / "manual_train.jsonl"
    path.write_text("".join(json.dumps(asdict(row)) + "\n" for row in done), "utf-8")

    records = [record for record in read_file(path) if record.passage == hold.answer]
    assert [record.source for record in records] == ["manual_train", "manual_train, users"]
    assert (records[1].question, records[1].answers) == (known.question, ("an hour",))
    assert done[2] == read_rows[2]
