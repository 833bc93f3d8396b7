import time
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from app.websearch.page import PageReader
from app.websearch.ssrf_guard import PageFailed
from tests.loopback.corpus import BY_SLUG
from tests.loopback.pages import PageServer


@pytest.fixture
async def reader(pages: PageServer) -> AsyncIterator[PageReader]:
    reader = PageReader(allowed_private_hosts={pages.address}, timeout_s=1.0, max_bytes=500_000)
    yield reader
    await reader.aclose()


async def test_a_page_becomes_paragraphs_under_its_heading(
    reader: PageReader, pages: PageServer
) -> None:
    page = await reader.read(pages.page_url("basalt"))
    assert page.title == "Basalt columns"
    assert page.paragraphs == tuple(
        f"Basalt columns: {text}" for text in BY_SLUG["basalt"].paragraphs
    )
    assert pages.requests[0].headers["user-agent"].startswith("self-crag/")


async def test_gzip_is_read(reader: PageReader, pages: PageServer) -> None:
    page = await reader.read(f"{pages.url}/gzip/dengta")
    assert page.paragraphs[0] == f"灯塔：{BY_SLUG['dengta'].paragraphs[0]}"


async def test_plain_text_is_read_by_blocks(reader: PageReader, pages: PageServer) -> None:
    page = await reader.read(f"{pages.url}/typed?type=text/plain")
    assert page.paragraphs == ("One block of plain words.", "Another block of plain words.")


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/pages/none", "answered 404"),
        ("/typed?type=application/pdf", "neither HTML nor plain text"),
        ("/typed?type=", "neither HTML nor plain text"),
        ("/broken-gzip", "broke off"),
        ("/loop", "redirects more than 3 times"),
        ("/hop/4", "redirects more than 3 times"),
        ("/redirect?to=http://127.0.0.1:1/", "port 1"),
        ("/slow", "longer than 1 s"),
        ("/drip", "longer than 1 s"),
    ],
)
async def test_a_page_that_cannot_be_used_is_refused_in_time(
    reader: PageReader, pages: PageServer, path: str, reason: str
) -> None:
    started = time.monotonic()
    with pytest.raises(PageFailed, match=reason):
        await reader.read(pages.url + path)
    assert time.monotonic() - started < 2.5


async def test_three_redirects_are_followed(reader: PageReader, pages: PageServer) -> None:
    page = await reader.read(f"{pages.url}/hop/3")
    assert page.title == "Lighthouse"


async def test_an_endless_page_is_cut_off(reader: PageReader, pages: PageServer) -> None:
    page = await reader.read(f"{pages.url}/endless")
    assert page.paragraphs == ("Flood: The first paragraph of a page without an end.",)
    assert pages.bytes_sent < 50_000_000


async def test_the_body_of_a_redirect_is_not_read(reader: PageReader, pages: PageServer) -> None:
    page = await reader.read(f"{pages.url}/endless-redirect")
    assert page.title == "Lighthouse"
    assert pages.bytes_sent < 50_000_000


async def test_a_gzip_bomb_is_inflated_to_the_limit_only(
    reader: PageReader, pages: PageServer
) -> None:
    tracemalloc.start()
    page = await reader.read(f"{pages.url}/bomb")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert page.paragraphs[0] == "boom boom boom"
    assert peak < 40_000_000


async def test_a_deeply_nested_page_is_refused_quickly(
    reader: PageReader, pages: PageServer
) -> None:
    pages.markup = "<div>" * 80_000 + "<p>deep down below everything</p>"
    started = time.monotonic()
    with pytest.raises(PageFailed, match="nested too deeply"):
        await reader.read(f"{pages.url}/html")
    assert time.monotonic() - started < 2


async def test_cookies_are_not_kept(reader: PageReader, pages: PageServer) -> None:
    await reader.read(f"{pages.url}/cookie")
    await reader.read(f"{pages.url}/cookie")
    assert "cookie" not in pages.requests[1].headers


async def test_the_loop_stays_free_while_pages_are_read(
    reader: PageReader, pages: PageServer
) -> None:
    pages.markup = f"<h1>Big</h1><p>{'<i>a</i>' * 70_000}</p>"  # far more to parse than to fetch
    await reader.read(f"{pages.url}/html")  # the first one also imports
    loop_s, all_s = time.thread_time(), time.process_time()  # of CPU: other work does not count
    page = await reader.read(f"{pages.url}/html")
    loop_s, all_s = time.thread_time() - loop_s, time.process_time() - all_s
    assert page.paragraphs
    assert loop_s < 0.5 * all_s
