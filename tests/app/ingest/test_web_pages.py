"""Pages of a host on loopback, brought into a real index."""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from app.ingest import web_pages as module
from app.ingest.files import Report
from app.ingest.loaders.by_suffix import load
from app.ingest.pipeline import ingest
from app.ingest.web_pages import downloaded, page_reader
from app.retrieval.retriever import HybridRetriever
from app.websearch.html_text import codec_of
from app.websearch.page import PageReader
from graphs.options import Scope
from tests.app.ingest.word import paragraph, word
from tests.loopback.site import SiteServer


@pytest.fixture
async def reader(site_server: SiteServer) -> AsyncIterator[PageReader]:
    opened = page_reader([site_server.address])
    yield opened
    await opened.aclose()


async def run(
    retriever: HybridRetriever, reader: PageReader, *urls: str, prune: bool = False
) -> Report:
    index, segmenter = retriever.index, retriever.segmenter
    download = partial(downloaded, reader=reader)
    return await ingest([], index, segmenter, urls=urls, download=download, prune=prune)


def reasons(report: Report) -> dict[str, str]:
    return {refusal.source: refusal.reason for refusal in report.refused}


async def test_pages_come_in_are_skipped_and_replaced(
    retriever: HybridRetriever, reader: PageReader, site_server: SiteServer
) -> None:
    pump = site_server.page("/pump.html", "The pump was serviced in March.", "The pump")
    valve = site_server.page("/阀门", "阀门在夜里打开。", "阀门")
    site_server.files["/house.docx"] = ("application/octet-stream", word(paragraph("Nine doors.")))
    site_server.redirects = {"/to-house.docx": "/house.docx"}
    house = f"{site_server.url}/to-house.docx"
    report = await run(retriever, reader, pump, valve, f"{pump}#parts", house)
    assert (report.added, report.refused) == ([pump, valve, house], [])
    first, *_ = await retriever.retrieve("When was the pump serviced?", 3)
    assert (first.source, first.title) == (pump, "The pump")
    site_server.page("/pump.html", "It was sold.", "The pump")
    again = await run(retriever, reader, pump, valve, house)
    assert (again.updated, again.skipped) == ([pump], [valve, house])


@pytest.mark.parametrize("status", [503, 429, 0])
async def test_an_outage_of_the_server_removes_no_page(
    retriever: HybridRetriever, reader: PageReader, site_server: SiteServer, status: int
) -> None:
    page = site_server.page("/水泵", "水泵在三月检修。")
    await run(retriever, reader, page)
    if status:
        site_server.status = status
    else:
        await reader.aclose()

        async def unresolved(_host: str, _port: int) -> list[str]:
            raise OSError("the name servers are away")

        reader = PageReader(
            allowed_private_hosts=[site_server.address], media_types=(), resolve=unresolved
        )
    report = await run(retriever, reader, page, prune=True)
    assert report.removed == []
    reason = f"answered {status}" if status else "has no known address"
    assert reasons(report) == {page: f"{reason}; its earlier version stays, for this may pass"}
    assert await retriever.index.count(Scope()) == 1


async def test_only_prune_removes_a_page_that_is_gone(
    retriever: HybridRetriever, reader: PageReader, site_server: SiteServer
) -> None:
    page = site_server.page("/page", "Words.")
    await run(retriever, reader, page)
    site_server.files.clear()
    kept = await run(retriever, reader, page)
    assert reasons(kept) == {page: "answered 404; its earlier version stays, --prune removes it"}
    assert (await run(retriever, reader, page, prune=True)).removed == [page]
    assert await retriever.index.count(Scope()) == 0


@pytest.mark.parametrize(
    ("kind", "charset", "page", "text"),
    [
        ("text/csv; charset=gbk", "gbk", "Note\n{}\n", "报销流程"),
        ("text/html", "windows-1250", "<meta charset=windows-1250><p>{}</p>", "Příliš žluťoučký"),
        ("text/html", "x-sjis", "<meta charset=x-sjis><p>{}</p>", "休暇は十日です。"),
    ],
)
async def test_a_page_reads_as_its_server_or_itself_declares(
    reader: PageReader, site_server: SiteServer, kind: str, charset: str, page: str, text: str
) -> None:
    content = page.format(text).encode(codec_of(charset))
    site_server.files["/page"] = (kind, content)
    async with downloaded(f"{site_server.url}/page", reader) as file:
        assert text in load(file, file.read_bytes()).blocks[0].text


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("application/xml", b"<urlset/>", "of a kind that cannot be read: application/xml"),
        ("text/html", b"<div>" * 20_000, "nested too deeply"),
    ],
)
async def test_hostile_answers_are_refused_alone(
    retriever: HybridRetriever, reader: PageReader, site_server: SiteServer,
    kind: str, body: bytes, reason: str,
) -> None:  # fmt: skip
    site_server.files["/page"] = (kind, body)
    bad, good = f"{site_server.url}/page", site_server.page("/good", "Words.")
    report = await run(retriever, reader, bad, good)
    assert report.added == [good]
    assert reason in reasons(report)[bad]


async def test_private_addresses_are_not_read(
    retriever: HybridRetriever, site_server: SiteServer
) -> None:
    guarded = page_reader()
    url = site_server.page("/secret", "Internal.")
    report = await run(retriever, guarded, url, "http://127.0.0.1/")
    await guarded.aclose()
    assert site_server.requests == []
    told = reasons(report)
    assert "may not be used" in told[url]
    assert "private address" in told["http://127.0.0.1/"]


async def test_a_page_over_the_bound_is_refused_not_cut(
    retriever: HybridRetriever, site_server: SiteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PAGE_BYTES", 1000)
    url = site_server.page("/long", "Words. " * 1000)
    reader = page_reader([site_server.address])
    report = await run(retriever, reader, url)
    await reader.aclose()
    assert "too large" in reasons(report)[url]
