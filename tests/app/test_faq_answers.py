"""The text of answers to what people ask first: the page's examples, and twenty of the FAQ.

`faq_answers.json` has a pattern for the asked-for fact of each, written before the answers.
"""

import json
import re
from pathlib import Path

import httpx
import pytest

from graphs.text.citations import without_markers
from graphs.text.sentences import plain
from tests.app.test_first_light import ask

FACTS: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_suffix("").with_name("faq_answers.json").read_text(encoding="utf-8")
)
LATER: frozenset[str] = frozenset(
    {
        "What does the upper threshold decide?",
        "Why does self-crag say that it does not know?",
        "Does self-crag need a GPU or an API key?",
        "What is a knowledge strip?",
        "What does status 422 mean?",
        "Which port does the service listen on by default?",
        "为什么 self-crag 说不知道？",
        "为什么关于我的文档的问题也去搜索网络？",
        "self-crag 需要 GPU 或 API 密钥吗？",
        "self-crag 懂哪些语言？",
        "怎样移除一个文档？",
        "动作为“错误”时会发生什么？",
        "端口被占用怎么办？",
        "状态码 422 表示什么？",
        "运行为什么因截止时间而结束？",
        "服务默认监听哪个端口？",
    }
)
"""Questions whose fact the answer holds, but not its first sentence."""
NOT_AT_ALL: frozenset[str] = frozenset(
    {
        "How do I start afresh with an empty knowledge base?",
        "三种动作分别在什么时候发生？",
        "self-crag 能记住对话吗？",
        "什么是知识条？",
        "degraded 是什么意思？",
    }
)
"""Questions whose answer lacks the fact, or that are not answered."""

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_answers_read_well_and_begin_with_what_was_asked_for(
    handbook: httpx.AsyncClient, language: str
) -> None:
    later, not_at_all = set(), set()
    for question, fact in FACTS[language].items():
        body = await ask(handbook, question)
        answer, said = str(body["answer"]), body["sentences"]
        assert isinstance(said, list)
        texts = [plain(without_markers(answer[one["start"] : one["end"]])) for one in said]
        assert len(texts) == len(set(texts)), f"{question}: said twice"
        assert not re.search(r"[:：]\s*(?:\[\d+\]\s*)?$", answer), f"{question}: nothing follows"
        assert not any(text.startswith(("{", "[")) for text in texts), f"{question}: data"
        if not re.search(fact, answer):
            not_at_all.add(question)
        elif not re.search(fact, answer[said[0]["start"] : said[0]["end"]]):
            later.add(question)
    assert later == LATER & FACTS[language].keys()
    assert not_at_all == NOT_AT_ALL & FACTS[language].keys()
