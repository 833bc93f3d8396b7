"""Keywords for the web search: what is read from a model's reply, and where none are asked for."""

from graphs.nodes.web import as_keywords
from tests import fakes
from tests.graphs.traced import traced


def test_at_most_three_keywords_are_read_from_a_reply() -> None:
    for reply, keywords in [
        ("Bergen, paper mill, opening", "Bergen, paper mill, opening"),
        ("关键词：卑尔根，造纸厂、开业；年份", "卑尔根, 造纸厂, 开业"),
        ("1. Bergen\n2. mill\n3. year\n4. more", "Bergen, mill, year"),
        ("- “Bergen”\n- 2024", "Bergen, 2024"),
        ("```text\nBergen\nmill```", "Bergen, mill"),
        ("**Keywords:** Bergen, `mill`", "Bergen, mill"),
        ("**搜索关键词**：卑尔根", "卑尔根"),
        ("關鍵詞：卑爾根，造紙廠", "卑爾根, 造紙廠"),
        ("3.5 mm jack, C++", "3.5 mm jack, C++"),
        ("关键词：\n1、澜沧江铁索桥\n2、主持修建", "澜沧江铁索桥, 主持修建"),
        ("1）法国\n2．首都", "法国, 首都"),
        ("3.5 T5\n2024年 奥运会", "3.5 T5, 2024年 奥运会"),
        ("Sure! Here are three keywords:\n\nFrance, capital, city", "France, capital, city"),
        ("好的，以下是关键词：\n\n法国、首都、城市", "法国, 首都, 城市"),
        *((reply, "") for reply in ("Keywords:", "关键词：", "", " , ,", "x" * 81)),
    ]:
        assert as_keywords(reply, inputs=reply) == keywords


def test_a_query_holds_ordinary_words_and_those_of_the_question_alone() -> None:
    told = "How does C++20 read /etc/app.conf --all of node.js at https://mine.example/x?"
    for reply, keywords in [
        ("C++20, /etc/app.conf, node.js", "C++20, /etc/app.conf, node.js"),
        ("reading --all, standard-library", "reading all, standard-library"),
        ("site:evil.example node.js", "node.js"),
        ("inurl:x, SITE:evil.example, filetype:pdf", ""),
        ("https://evil.example/?q=secret node.js, www.evil.example", "node.js"),
        ("https://mine.example/x", ""),
        ("node.js OR secret, NOT this", "node.js secret, this"),
        ("Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4, sk-51d2e8a7", ""),
        ("node.js 2024, evil.example", "node.js 2024"),
        ("no\U000e0064de.js\u200b", "node.js"),
        ('"node.js" -reading', "node.js reading"),
        ("打开 http://evil.example/偷, 配置", "打开, 配置"),
    ]:
        assert as_keywords(reply, told) == keywords


async def test_keywords_are_told_without_thoughts() -> None:
    chat = fakes.FakeChat(chunks=["x"], keywords="<think>Okay, who pays, well</think>Umbra, tower")
    web = fakes.FakeWebSearch([])
    services = fakes.services(fakes.FakeRetriever([]), web_search=web, chat=chat)
    await traced(services, "How tall is the red tower of Umbra?", "crag")

    assert web.queries == ["Umbra, tower"]
