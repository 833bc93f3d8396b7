"""The question most tests of the service ask, what answers it, and how it is drafted."""

from graphs.ports import Services
from graphs.types import WebPage
from tests import fakes

ENGLISH = "How tall is the red tower of Umbra?"
CHINESE = "乌木城的红塔高多少米？"
FACTS = {ENGLISH: "87 metres", CHINESE: "八十七米"}
TOWER = fakes.passage("The red tower of Umbra is 87 metres tall.", 1)
TURM = fakes.passage("乌木城的红塔高八十七米。", 2)
PAGE = WebPage("https://example.org/tower", "Tower", 0.9, ("The red tower of Umbra was repaired.",))
FIRST, SECOND = "It is tall [1].", "It is 87 metres tall [1]."
ALWAYS = {"retrieval": "always", "ablation": {"only_action": "correct"}}
"""Options of a run that retrieves and finds what it retrieved right."""


def rejecting(first: str = FIRST, then: str = SECOND, pause_s: float = 0.0) -> Services:
    """A chat endpoint whose first draft the critic rejects; each comes in two halves."""
    return fakes.services(
        fakes.FakeRetriever([TOWER]),
        chat=fakes.ScriptedChat(answers=[first, then], pause_s=pause_s),
        critic=fakes.FakeCritic(script=[fakes.POOR, fakes.GOOD], words=["Say how tall."]),
        web_search=fakes.FakeWebSearch([PAGE]),
    )
