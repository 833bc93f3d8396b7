"""Pages and sitemaps of a host on loopback, brought into a real index."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.ingest import web_pages as module
from app.ingest.loaders.by_suffix import load
from app.ingest.pipeline import Report, ingest
from app.ingest.sitemap import host_of
from app.ingest.web_pages import Site
from app.retrieval.chunking import Cutting
from app.retrieval.retriever import HybridRetriever
from app.websearch.encoding import codec_of
from app.websearch.ssrf_guard import Resolve, resolve_addresses
from tests.app.ingest.word import paragraph, word
from tests.loopback.site import SiteServer


@pytest.fixture
async def site(tmp_path: Path, site_server: SiteServer) -> AsyncIterator[Site]:
    async for opened in opened_site(tmp_path, site_server):
        yield opened


async def opened_site(
    folder: Path, server: SiteServer, max_pages: int = 20, resolve: Resolve = resolve_addresses
) -> AsyncIterator[Site]:
    opened = Site(
        folder / "pages.json",
        max_pages=max_pages,
        allowed_private_hosts=[server.address],
        pause_s=0,
        resolve=resolve,
    )
    try:
        yield opened
    finally:
        await opened.aclose()


async def run(
    retriever: HybridRetriever,
    site: Site,
    *urls: str,
    prune: bool = False,
    cutting: Cutting | None = None,
) -> Report:
    index, segmenter = retriever.index, retriever.segmenter
    return await ingest([], index, segmenter, urls=urls, site=site, prune=prune, cutting=cutting)


def reasons(report: Report) -> dict[str, str]:
    return {refusal.source: refusal.reason for refusal in report.refused}


async def test_pages_of_sitemaps_come_in_and_failing_ones_are_told(
    retriever: HybridRetriever, site: Site, site_server: SiteServer
) -> None:
    pump = site_server.page("/pump.html", "The pump was serviced in March.", "The pump")
    valve = site_server.page("/阀门", "阀门在夜里打开。", "阀门")
    site_server.files["/house.docx"] = ("application/octet-stream", word(paragraph("Nine doors.")))
    house, gone = f"{site_server.url}/house.docx", f"{site_server.url}/gone"
    inner = site_server.sitemap("/inner.xml", pump, valve, f"{pump}#parts")
    other = site_server.sitemap("/other.xml", house, gone, "http://elsewhere.test/page")
    site_server.files["/other.xml.gz"] = (
        "application/gzip",
        gzip.compress(site_server.files["/other.xml"][1]),
    )
    root = site_server.sitemap("/sitemap.xml", inner, f"{other}.gz", inner, of_sitemaps=True)
    report = await run(retriever, site, root)
    assert report.added == [pump, valve, house]
    assert reasons(report) == {
        gone: "answered 404",
        "http://elsewhere.test/page": "is of another host than the sitemap that names it",
    }
    first, *_ = await retriever.retrieve("When was the pump serviced?", 3)
    assert (first.source, first.title) == (pump, "The pump")


async def test_unchanged_pages_are_not_sent_again(
    retriever: HybridRetriever, site: Site, site_server: SiteServer, tmp_path: Path
) -> None:
    told = site_server.page("/told", "It has a version.")
    untold = site_server.page("/untold", "It has none.")
    site_server.versions["/told"] = '"1"'
    await run(retriever, site, told, untold)
    async for later in opened_site(tmp_path, site_server):
        site_server.requests.clear()
        report = await run(retriever, later, told, untold)
        assert report.skipped == [told, untold]
        sent = {request.path: request.headers for request in site_server.requests}
        assert sent["/told"]["if-none-match"] == '"1"'
        site_server.page("/told", "It has another one.")
        site_server.versions["/told"] = '"2"'
        report = await run(retriever, later, told, untold)
        assert (report.updated, report.skipped) == ([told], [untold])
    assert await retriever.index.count() == 2


async def test_pages_cut_another_way_are_read_again_though_unchanged(
    retriever: HybridRetriever, site_server: SiteServer, tmp_path: Path
) -> None:
    page = site_server.page("/阀门", "阀门在夜里打开。水泵在三月检修。" * 40)
    site_server.versions["/阀门"] = '"1"'
    short = Cutting(tokens=40)
    for cutting in (None, short):
        async for site in opened_site(tmp_path, site_server):
            await run(retriever, site, page, cutting=cutting)
    (document,) = await retriever.index.documents()
    assert document.chunking == short.name
    async for site in opened_site(tmp_path, site_server):
        assert (await run(retriever, site, page, cutting=short)).skipped == [page]
    assert site_server.requests[-1].headers["if-none-match"] == '"1"'


@pytest.mark.parametrize("status", [503, 429])
async def test_an_outage_of_the_server_removes_no_page(
    retriever: HybridRetriever, site: Site, site_server: SiteServer, status: int
) -> None:
    page = site_server.page("/水泵", "水泵在三月检修。")
    await run(retriever, site, page)
    site_server.status = status
    report = await run(retriever, site, page, prune=True)
    assert report.removed == []
    assert reasons(report) == {
        page: f"answered {status}; its earlier version stays, for this may pass"
    }
    assert await retriever.index.count() == 1


async def test_a_host_without_an_address_for_now_loses_no_page(
    retriever: HybridRetriever, site: Site, site_server: SiteServer, tmp_path: Path
) -> None:
    page = site_server.page("/pump", "It was serviced in March.")
    await run(retriever, site, page)

    async def unresolved(_host: str, _port: int) -> list[str]:
        raise OSError("the name servers are away")

    async for away in opened_site(tmp_path, site_server, resolve=unresolved):
        report = await run(retriever, away, page, prune=True)
    assert (report.removed, await retriever.index.count()) == ([], 1)
    assert "has no known address; its earlier version stays" in reasons(report)[page]


async def test_only_prune_removes_a_page_that_is_gone(
    retriever: HybridRetriever, site: Site, site_server: SiteServer
) -> None:
    page = site_server.page("/page", "Words.")
    await run(retriever, site, page)
    site_server.files.clear()
    kept = await run(retriever, site, page)
    assert reasons(kept) == {page: "answered 404; its earlier version stays, --prune removes it"}
    assert (await run(retriever, site, page, prune=True)).removed == [page]
    assert await retriever.index.count() == 0


async def test_the_rules_of_the_host_are_kept(
    retriever: HybridRetriever, site: Site, site_server: SiteServer
) -> None:
    site_server.robots = "User-agent: *\nDisallow: /*.html$\nAllow: /\n"
    closed, open_ = site_server.page("/a.html", "No."), site_server.page("/b", "Yes.")
    report = await run(retriever, site, closed, open_)
    assert report.added == [open_]
    assert reasons(report) == {closed: "its robots.txt asks not to read it"}
    assert site_server.asked() == ["/b"]


async def test_the_rules_hold_where_a_redirect_leads(
    retriever: HybridRetriever, site: Site, site_server: SiteServer
) -> None:
    site_server.robots = "User-agent: *\nDisallow: /private\n"
    site_server.page("/private/x", "No.")
    site_server.page("/valve", "阀门在夜里打开。")
    site_server.redirects = {
        **{"/to-private": "/private/x", "/to-valve": "/again", "/again": "/valve"},
        **{"/round": "/round", "/out": "http://elsewhere.test/page"},
    }
    names = ("to-private", "to-valve", "round", "out")
    private, valve, circle, out = (f"{site_server.url}/{name}" for name in names)
    report = await run(retriever, site, private, valve, circle, out)
    assert report.added == [valve]
    told = reasons(report)
    assert told[private] == "its robots.txt asks not to read it"
    assert told[circle] == "redirects more than 3 times"
    assert told.keys() == {private, circle, out}
    assert "/private/x" not in site_server.asked()


async def test_addresses_of_a_sitemap_are_understood_or_told(
    retriever: HybridRetriever, site: Site, site_server: SiteServer
) -> None:
    pump = site_server.page("/水泵", "水泵在三月检修。")
    site_server.page("/deep/lamp", "It is lit.")
    upper = pump.replace("http://", "HTTP://")
    named = (upper, "lamp", "mailto:ann@example.org", "http://[broken")
    root = site_server.sitemap("/deep/sitemap.xml", *named)
    report = await run(retriever, site, root)
    assert report.added == [pump, f"{site_server.url}/deep/lamp"]
    assert reasons(report) == dict.fromkeys(named[2:], "is no address of a page")


async def test_one_host_in_capitals_is_no_other(
    retriever: HybridRetriever, site: Site, site_server: SiteServer
) -> None:
    site_server.page("/pump", "It was serviced.")
    local = site_server.url.replace("127.0.0.1", "localhost")
    site_server.sitemap("/s.xml", local.replace("localhost", "LOCALHOST") + "/pump")
    found, refused = await module._listed_in(f"{site_server.url}/s.xml", site)
    assert (found, len(refused)) == ([], 1)
    assert host_of(local) == host_of(local.upper())


@pytest.mark.parametrize("kind", ["text/markdown", "text/csv", "text/tab-separated-values"])
async def test_what_a_server_says_of_the_charset_counts(
    retriever: HybridRetriever, site: Site, site_server: SiteServer, kind: str
) -> None:
    text = "Note\n" + "Plain English text follows here for a while. " * 9 + "报销流程"
    site_server.files["/page"] = (f"{kind}; charset=gbk", text.encode("gbk"))
    await run(retriever, site, f"{site_server.url}/page")
    found = await retriever.retrieve("报销流程", 9)
    assert "报销流程" in "".join(passage.text for passage in found)


@pytest.mark.parametrize(
    ("charset", "text"),
    [
        ("windows-1250", "Příliš žluťoučký kůň."),
        ("koi8-u", "Відпустка триває десять днів."),
        ("iso-8859-7", "Η άδεια διαρκεί δέκα ημέρες."),
        ("x-sjis", "休暇は十日です。申請してください。"),
        ("windows-874", "ลาพักร้อนสิบวัน"),
        ("gbk", "年假为十天，需提前申请。"),
    ],
)
async def test_a_page_reads_as_the_file_that_it_is(
    site: Site, site_server: SiteServer, charset: str, text: str
) -> None:
    page = f"<meta charset={charset}><p>{text}</p>".encode(codec_of(charset))
    site_server.files["/page"] = ("text/html", page)
    async with site.download(f"{site_server.url}/page") as file:
        assert load(file, file.read_bytes()).blocks == load(Path("page.html"), page).blocks
    assert load(Path("page.html"), page).blocks[0].text == text


async def test_no_more_pages_than_allowed(
    retriever: HybridRetriever, site_server: SiteServer, tmp_path: Path
) -> None:
    urls = [site_server.page(f"/{number}", f"Page {number}.") for number in range(5)]
    root = site_server.sitemap("/sitemap.xml", *urls)
    async for site in opened_site(tmp_path, site_server, max_pages=2):
        report = await run(retriever, site, root)
    assert report.added == urls[:2]
    assert reasons(report) == {root: "more than 2 pages; the rest was left out"}


ENTITIES = b'<!DOCTYPE u [<!ENTITY a "boom"><!ENTITY b "&a;&a;&a;">]><urlset>&b;</urlset>'


@pytest.mark.parametrize(
    ("path", "kind", "body", "reason"),
    [
        ("/s.xml", "application/xml", ENTITIES, "no sitemap that can be read safely"),
        ("/s.xml", "application/xml", b"<urlset><url>", "no sitemap that can be read safely"),
        ("/s.xml", "application/xml", b"<html/>", "is no sitemap"),
        ("/s.xml.gz", "application/gzip", b"\x1f\x8b broken", "no sitemap that can be read"),
        ("/page", "image/png", b"\x89PNG", "of a kind that cannot be read: image/png"),
        ("/page", "text/html", b"<div>" * 20_000, "nested too deeply"),
        ("/page", "application/pdf", b"%PDF-1.4 broken", "damaged PDF"),
    ],
)
async def test_hostile_answers_are_refused_alone(
    retriever: HybridRetriever, site: Site, site_server: SiteServer,
    path: str, kind: str, body: bytes, reason: str,
) -> None:  # fmt: skip
    site_server.files[path] = (kind, body)
    good = site_server.page("/good", "Words.")
    report = await run(retriever, site, site_server.url + path, good)
    assert report.added == [good]
    assert reason in reasons(report)[site_server.url + path]


async def test_private_addresses_are_not_read(
    retriever: HybridRetriever, site_server: SiteServer, tmp_path: Path
) -> None:
    guarded = Site(tmp_path / "pages.json", max_pages=5)
    url = site_server.page("/secret", "Internal.")
    report = await run(retriever, guarded, url, "http://127.0.0.1/")
    await guarded.aclose()
    assert site_server.requests == []
    told = reasons(report)
    assert "may not be used" in told[url]
    assert "private address" in told["http://127.0.0.1/"]


async def test_a_packed_sitemap_is_unpacked_no_further_than_a_page_may_be_long(
    retriever: HybridRetriever, site: Site, site_server: SiteServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = site_server.page("/page", "Words.")
    sitemap = site_server.sitemap("/pages.xml", *[page] * 100)
    kind, body = site_server.files["/pages.xml"]
    site_server.files["/pages.xml.gz"] = (kind, gzip.compress(body))
    assert (await run(retriever, site, f"{sitemap}.gz")).added == [page]
    monkeypatch.setattr(module, "MOST_BYTES", len(body) - 1)
    report = await run(retriever, site, f"{sitemap}.gz")
    assert reasons(report) == {f"{sitemap}.gz": "too large: 0 MB or more"}


async def test_a_page_over_the_bound_is_refused_not_cut(
    retriever: HybridRetriever, site_server: SiteServer, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    url = site_server.page("/long", "Words. " * 1000)
    async for site in opened_site(tmp_path, site_server):
        report = await run(retriever, site, url)
    assert "too large" in reasons(report)[url]
