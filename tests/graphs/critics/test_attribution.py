"""Attribution: sentences of a model's answer are cited by the strips that support them best."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from graphs.critics.evaluator import EvaluatorCritic
from graphs.nodes.cite import UNCITED
from graphs.reflection.verdict import verdict_of
from graphs.text.citations import with_marker
from graphs.types import Draft, Scores, Strip, Task
from tests import fakes
from tests.graphs.traced import Trace, traced

QUESTION, ZH_QUESTION = "How is the port changed?", "如何修改端口？"
KNOWLEDGE = [
    "The service does listen on the port 8000 unless told otherwise.",
    "The variable `SELFCRAG_PORT` changes the port of the service.",
]
ZH_KNOWLEDGE = [
    "除非另有设置，服务监听的端口是 8000。",
    "变量 `SELFCRAG_PORT` 可以修改服务的端口。",
]
SPLIT = ["The tower of Umbra is 87 metres tall.", "The tower of Umbra has 300 steps."]
workflows = pytest.mark.parametrize("workflow", ["self_rag", "self_crag"])


@dataclass
class SentenceEvaluator(fakes.FakeEvaluator):
    """All is relevant and of use; a sentence is supported as far as the strip has its words."""

    async def score(self, task: Task, pairs: Sequence[tuple[str, str]]) -> Scores:
        self.calls.append(list(pairs))
        self.tasks.append(task)
        if task != "support":
            return Scores((1.0,) * len(pairs))
        return Scores(tuple(_share(said.partition(" [SEP] ")[2], held) for said, held in pairs))


def _share(said: str, held: str) -> float | None:
    words = set(fakes.WORD.findall(said.lower()))
    return len(words & set(fakes.WORD.findall(held.lower()))) / max(1, len(words))


async def asked(
    says: str,
    knowledge: Sequence[str] = KNOWLEDGE,
    workflow: str = "self_crag",
    evaluator: fakes.FakeEvaluator | None = None,
    max_critic: int = 0,
    **options: object,
) -> Trace:
    """One draft from all of the knowledge, quoted where none is said; the evaluator judges it."""
    if workflow == "self_rag":  # a draft a passage: one that holds the strips
        passages = [fakes.passage(" ".join(knowledge))]
    else:
        passages = [fakes.passage(text, n) for n, text in enumerate(knowledge)]
    question = ZH_QUESTION if knowledge == ZH_KNOWLEDGE else QUESTION
    chat = fakes.ScriptedChat(answers=[says]) if says else None
    retriever, judge = fakes.FakeRetriever(passages), evaluator or SentenceEvaluator()
    services = fakes.services(retriever, judge, chat=chat)
    options = {"retrieval": "always", "max_critic": max_critic, **options}
    return await traced(services, question, workflow, **options)


@pytest.mark.parametrize(
    ("says", "cited"),
    [
        (
            "The service does listen on the port 8000. `SELFCRAG_PORT` changes the port!",
            "The service does listen on the port 8000 [1]. `SELFCRAG_PORT` changes the port [2]!",
        ),
        ("- The port is 8000\n- **Changes**: the variable", None),
        (
            "| Key |\n|---|\n| the service: the port 8000 |",
            "| Key |\n|---|\n| the service: the port 8000 [1] |",
        ),
        (
            "**Port**\n\nThe port is 8000.\n\n**The service**\n\n8000.",
            "**Port**\n\nThe port is 8000 [1].\n\n**The service**\n\n8000 [1].",
        ),
        ("Port 8000", "Port 8000 [1]"),
        (
            "1. The port changes.\n2. The service does listen on 8000.",
            "1. The port changes [2].\n2. The service does listen on 8000 [1].",
        ),
    ],
    ids=["sentences", "list", "table", "headings", "alone", "numbered"],
)
async def test_sentences_that_cite_nothing_are_cited(says: str, cited: str | None) -> None:
    trace = await asked(says)

    assert trace.answer == (cited or "- The port is 8000 [1]\n- **Changes**: the variable [2]")


@pytest.mark.parametrize(
    ("says", "cited"),
    [
        (
            "服务监听的端口是 8000。变量 `SELFCRAG_PORT` 修改端口。",
            "服务监听的端口是 8000 [1]。变量 `SELFCRAG_PORT` 修改端口[2]。",
        ),
        ("服务监听的端口是８０００！", "服务监听的端口是８０００[1]！"),
        ("服务监听的端口是 8000[2]。", "服务监听的端口是 8000 [1]。"),
        ("服务监听的端口是 9000。希望有帮助。", "服务监听的端口是 9000。希望有帮助。"),
    ],
)
async def test_in_chinese_as_well(says: str, cited: str) -> None:
    trace = await asked(says, ZH_KNOWLEDGE)

    assert trace.answer == cited


@workflows
async def test_citations_and_verdict_agree_with_the_text(workflow: str) -> None:
    trace = await asked("Courtesy apart: 42. The service does listen on 8000.", workflow=workflow)

    answer, citations = trace.answer, trace.output["citations"]
    assert answer == "Courtesy apart: 42. The service does listen on 8000 [1]."
    assert [answer[slice(*span)] for it in citations for span in it.spans] == [
        "The service does listen on 8000 [1]."
    ]
    assert "port 8000" in citations[0].text
    sentences = verdict_of(trace.output).sentences
    assert [(it.label, it.citations) for it in sentences] == [
        ("unsupported", ()),
        ("supported", (1,)),
    ]


@pytest.mark.parametrize(
    ("says", "cited"),
    [
        ("The service does listen on 8000 [2].", "The service does listen on 8000 [1]."),
        ("[2] The service does listen on 8000.", "The service does listen on 8000 [1]."),
        ("The service [2] does listen on 8000.", "The service does listen on 8000 [1]."),
        ("The service does listen on the port [1].", "The service does listen on the port [1]."),
        ("Gravity bends all light [2].", "Gravity bends all light [2]."),
        ("The port 8000 changes by a variable [1][2].", None),
    ],
    ids=["wrong", "before", "within", "right", "nowhere", "both"],
)
async def test_a_marker_that_is_wrong_is_replaced(says: str, cited: str | None) -> None:
    assert (await asked(says)).answer == (cited or says)


@pytest.mark.parametrize(
    "says",
    [
        "The service does listen on the port 9000.",
        "The service does listen on the port 8000, 2000000000000 bytes.",
        "The variable `SELFCRAG_PORTS` changes the port.",
        "The variable --port changes the port.",
        "The service does listen on the port /ask.",
        "The service does listen on port.example.org.",
        "The service does listen on the port 8000 and `SELFCRAG_PORT` changes it.",
    ],
)
async def test_values_that_stand_in_no_strip_leave_a_sentence_unsupported(says: str) -> None:
    trace = await asked(says)

    assert trace.answer.replace("[.]", ".") == says
    assert trace.output["citations"] == []
    assert [it.label for it in verdict_of(trace.output).sentences] == ["unsupported"]
    assert trace.output["judgement"].weak


@pytest.mark.parametrize(
    "says",
    [
        "The service does listen on the port ８，０００.",
        "The service does listen on the port 8,000.",
        "8. The service does listen on the port.",
    ],
)
async def test_values_are_known_however_they_are_written(says: str) -> None:
    assert [it.n for it in (await asked(says)).output["citations"]] == [1]


async def test_values_may_be_spread_over_the_strips_that_are_cited() -> None:
    says = "The tower of Umbra is 87 metres tall and has 300 steps [1][2]."

    assert [it.n for it in (await asked(says, SPLIT)).output["citations"]] == [1, 2]


@pytest.mark.parametrize(
    "courtesy", ["I hope this helps.", "I hope this helps [1]!", "Sure, here is how it works:"]
)
async def test_a_courtesy_is_not_cited(courtesy: str) -> None:
    trace = await asked(f"The service does listen on the port. {courtesy}")

    assert trace.answer == f"The service does listen on the port [1]. {courtesy}"


@pytest.mark.parametrize(
    ("says", "sources"),
    [
        ("The port changes. I hope this helps.", [("The port changes.", 1)]),
        ("Der Port ist 9000. 端口可以修改。", [("端口可以修改。", 1)]),
    ],
    ids=["courtesy", "other language"],
)
async def test_an_evaluator_that_likes_everything_is_not_believed(
    says: str, sources: list[tuple[str, int]]
) -> None:
    strip = Strip("p#0", "p", KNOWLEDGE[1], "Page", "a.md", "internal", (0, 0))
    critic = EvaluatorCritic(fakes.FakeEvaluator(known={strip.text: 1.0}))
    (judgement,), _ = await critic.judge(QUESTION, [Draft(says, (strip,))])

    assert list(judgement.sources) == sources


async def test_code_is_left_alone() -> None:
    code = "```python\nthe_port = ports[2]\n# The service does listen on the port 8000.\n```"
    trace = await asked(f"The service does listen on the port:\n{code}\nIt changes the port.")

    assert trace.answer == f"The service does listen on the port: [1]\n{code}\n" + (
        "It changes the port [2]."
    )
    assert [it.n for it in trace.output["citations"]] == [1, 2]


@workflows
async def test_quotations_stay_as_they_are(workflow: str) -> None:
    trace = await asked("", workflow=workflow, max_critic=3)

    assert trace.answer == trace.output["candidates"][0].answer
    assert trace.output["generator"] == "extractive"


async def test_a_choice_is_cited_beside_its_text() -> None:
    trace = await asked("8000", choices=["8000", "9000"])

    assert trace.answer == "8000"
    assert [(it.n, it.spans) for it in trace.output["citations"]] == [(1, ((0, 4),))]


async def test_a_revision_that_says_the_same_again_is_unchanged() -> None:
    """What the critic rejected gives way to a quotation, which has no idle sentence."""
    trace = await asked("The service does listen on the port. I hope this helps.", max_critic=3)

    assert trace.output["stopped_by"] == "unchanged"
    assert trace.answer == " ".join(
        with_marker(text, n) for n, text in enumerate(KNOWLEDGE, start=1)
    )


async def test_the_evaluator_is_asked_once_a_round() -> None:
    evaluator = SentenceEvaluator()
    await asked("It does listen on the port [2]. It is 9000.", evaluator=evaluator)

    (pairs,) = [
        pairs
        for task, pairs in zip(evaluator.tasks, evaluator.calls, strict=True)
        if task == "support"
    ]
    assert {held for _, held in pairs} == set(KNOWLEDGE)
    assert not any("9000" in said for said, _ in pairs), "no strip holds it"


unjudged = pytest.mark.parametrize("workflow", ["rag", "crag"])


@unjudged
@pytest.mark.parametrize(
    ("says", "cited", "knowledge"),
    [
        (
            "The service does listen on 8000. I hope this helps.",
            " [1]. I hope this helps.",
            KNOWLEDGE,
        ),
        ("服务监听的端口是 8000。希望有帮助。", " [1]。希望有帮助。", ZH_KNOWLEDGE),
    ],
)
async def test_where_no_critic_follows_a_step_cites(
    workflow: str, says: str, cited: str, knowledge: Sequence[str]
) -> None:
    trace = await asked(says, knowledge, workflow)

    assert trace.nodes[-2:] == ["generate", "cite"]
    assert trace.answer == says.partition("8000")[0] + "8000" + cited
    assert trace.output["citations"][0].text == knowledge[0]
    assert trace.output["judgement"] is None
    assert trace.output["stopped_by"] == "answered"
    assert trace.output["usage"].scored_pairs > 0


@unjudged
@pytest.mark.parametrize("says", ["The port is 8000 [1].", "**8000** [1]"])
async def test_what_names_its_sources_is_not_looked_at_again(workflow: str, says: str) -> None:
    assert (await asked(says, workflow=workflow)).nodes[-1] == "generate"


@unjudged
async def test_a_choice_bears_no_marker(workflow: str) -> None:
    trace = await asked("8000", workflow=workflow, choices=["8000", "9000"])
    assert trace.answer == "8000"


async def test_an_evaluator_that_fails_leaves_the_answer_uncited() -> None:
    says = "The service does listen on 8000."
    gone = fakes.FakeEvaluator(fails_from_call=1)
    trace = await asked(says, workflow="rag", evaluator=gone)

    assert trace.answer == says
    assert [it.reason for it in trace.output["degraded"]] == [UNCITED.format("the worker is gone")]
