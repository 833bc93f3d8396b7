"""The same little world in both languages: a question, what a document and the web say of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from graphs.types import Language, Message, WebPage
from prompts import prompt
from tests.fakes import (
    FakeChat,
    FakeCritic,
    FakeEvaluator,
    FakeRetriever,
    FakeWebSearch,
    passage,
    services,
)
from tests.graphs.traced import Trace, traced


@dataclass(frozen=True)
class World:
    """By the fake evaluator `full` is Correct, `half` Ambiguous, `off` Incorrect."""

    language: Language
    question: str
    full: str
    half: str
    off: str
    web: str
    noise: str
    url: str

    @property
    def unknown(self) -> str:
        return prompt("unknown", self.language).render()

    def parts(self, *texts: str, **ports: Any) -> "Parts":
        return Parts(self, texts, **ports)


class Parts:
    """The fakes of one test and the services made of them."""

    def __init__(
        self,
        world: World,
        texts: tuple[str, ...],
        evaluator: FakeEvaluator | None = None,
        web: FakeWebSearch | None = None,
        chat: FakeChat | None = None,
        critic: FakeCritic | None = None,
        offline: bool = False,
    ) -> None:
        self.world = world
        page = WebPage(world.url, "Mills", 0.8, (world.noise, world.web))
        self.retriever = FakeRetriever([passage(text, i) for i, text in enumerate(texts)])
        self.evaluator = evaluator or FakeEvaluator()
        self.web = web or FakeWebSearch([page])
        self.chat = chat
        self.critic = critic
        self.services = services(
            self.retriever, self.evaluator, None if offline else self.web, chat, critic
        )

    async def ask(
        self, workflow: str = "crag", history: Sequence[Message] = (), **options: Any
    ) -> Trace:
        """A run of the world's question."""
        return await traced(self.services, self.world.question, workflow, history, **options)


EN = World(
    language="en",
    question="When did the Bergen paper mill open?",
    full="The Bergen paper mill did open in 1852.",
    half="The Bergen mill burned.",
    off="Cats sleep all day.",
    web="The paper mill of Bergen did open when rails came.",
    noise="Accept all cookies.",
    url="https://mills.example/bergen",
)
ZH = World(
    language="zh",
    question="卑尔根造纸厂何时开业？",
    full="卑尔根造纸厂于1852年开业。",
    half="卑尔根造出了大船。",
    off="猫整天睡觉。",
    web="造纸厂开业于铁路通到卑尔根的那年。",
    noise="请接受缓存。",
    url="https://mills.example/zh/卑尔根",
)
both_languages = pytest.mark.parametrize("world", [EN, ZH], ids=["en", "zh"])
every_workflow = pytest.mark.parametrize(
    ("workflow", "world"), [("rag", EN), ("crag", ZH), ("self_rag", ZH), ("self_crag", EN)],
    ids=["rag", "crag", "self_rag", "self_crag"],
)  # fmt: skip
