"""Speculative search over HTTP: what the trace tells of it, and that it ends with its run."""

from dataclasses import replace

import pytest

from app.websearch.search import SearchesAhead
from graphs.ports import Services
from tests import fakes
from tests.app.serving import Serve, wait_until
from tests.app.slow import SlowWebSearch
from tests.umbra import ENGLISH, PAGE, TOWER

SPECULATIVE = {"speculative_search": True, "retrieval": "always"}


def parts_with(web: fakes.FakeWebSearch, evaluator: fakes.FakeEvaluator | None = None) -> Services:
    parts = fakes.services(fakes.FakeRetriever([TOWER]), evaluator, web_search=web)
    return replace(parts, search_ahead=SearchesAhead(web))


@pytest.mark.parametrize(
    ("upper", "outcome", "step", "discarded"),
    [(None, "discarded", "refine", 1), (1.0, "kept", "search_web", 0)],
)
def test_the_trace_says_what_became_of_it(
    serve: Serve, upper: float | None, outcome: str, step: str, discarded: int
) -> None:
    serving = serve(parts_with(fakes.FakeWebSearch([PAGE])))
    events = serving.stream(ENGLISH, options={**SPECULATIVE, "upper": upper})
    ended = {e.data["step"]: e.data["detail"] for e in events if e.data.get("phase") == "end"}

    assert ended["grade"]["speculative_search"] == outcome
    assert step in ended
    assert ("web_results" in ended.get("search_web", {})) == (outcome == "kept")
    usage = events[-2].data["usage"]
    assert (usage["web_searches"], usage["discarded_searches"]) == (1, discarded)


def test_it_ends_at_the_deadline(serve: Serve) -> None:
    web = SlowWebSearch()
    serving = serve(parts_with(web))
    answer = serving.ask(ENGLISH, options={**SPECULATIVE, "upper": 1.0, "deadline_ms": 1500})

    assert (answer["stopped_by"], answer["action"]) == ("deadline", "ambiguous")
    assert "87 metres" in answer["answer"], "what is local was kept meanwhile"
    wait_until(lambda: bool(web.waiting.left_s), 5)
