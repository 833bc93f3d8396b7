"""The experiments as data: their arms, what each arm is asked from, and what is told of it."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from benchmarks.reproduce.formats import Evidence, Kind
from benchmarks.reproduce.material import WEB_MISSES, BenchmarkCase, as_passage, draw
from graphs.types import Passage

Groups = tuple[tuple[str, ...], ...]

SYSTEMS = ("rag", "crag", "self_rag", "self_crag")
DROPPED = 0.4
"""Share of the right passages that is dropped where an experiment does not vary it: retrieval of
the papers' kind, which misses the answer of about every third question."""
DOCUMENTS = 5
"""Documents a question has in the experiments of RGB."""


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What a workflow is asked: from these passages, or from the knowledge base where None."""

    question: str
    passages: tuple[Passage, ...] | None
    answers: Groups
    wrong: tuple[str, ...] = ()


Setup = Callable[[BenchmarkCase, BenchmarkCase, int], Inquiry]
"""A case and the next one with the seed."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A row of a table; `needs` names what is not there by default (`NEEDS`).

    `note` says why it costs nothing, where it does not.
    """

    name: str
    workflow: str
    options: Mapping[str, Any] = field(default_factory=dict)
    setup: Setup | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    needs: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A page: arms are compared with the first one, of each `group` of so many if given.

    `judged`: the evaluator judges answers. `share` of a set's questions are asked.
    `timed` runs keep no grades from one question to the next. `curve` names the arms' lines.
    """

    title: str
    about: str
    arms: tuple[Arm, ...]
    measures: tuple[str, ...]
    setup: Setup
    kinds: tuple[Kind, ...] = ("short",)
    judged: bool = False
    timed: bool = False
    share: float = 1.0
    curve: tuple[str, ...] = ()
    group: int = 0


def dropped(share: float) -> Setup:
    """As retrieved, each right passage left out with this probability."""

    def setup(case: BenchmarkCase, _: BenchmarkCase, seed: int) -> Inquiry:
        example = case.example
        kept = tuple(
            passage for passage in case.retrieved
            if not case.is_right(passage) or draw(seed, example.id, passage.text) >= share
        )  # fmt: skip
        return Inquiry(example.question, kept, example.answers)

    return setup


def searched(case: BenchmarkCase, _: BenchmarkCase, __: int) -> Inquiry:
    """From the knowledge base, by the options of the arm."""
    return Inquiry(case.example.question, None, case.example.answers)


def noisy(share: float) -> Setup:
    """RGB: this share of the documents is noise; right ones fill up the rest, if there are."""

    def setup(case: BenchmarkCase, _: BenchmarkCase, seed: int) -> Inquiry:
        many = round(DOCUMENTS * share)
        documents = [*_right(case)[: DOCUMENTS - many], *_noise(case)[:many]]
        answers = case.example.answers
        return Inquiry(case.example.question, _mixed(documents, case, seed), answers)

    return setup


def only_noise(case: BenchmarkCase, _: BenchmarkCase, seed: int) -> Inquiry:
    """RGB's negative rejection: no document holds the answer."""
    passages = _mixed(_noise(case)[:DOCUMENTS], case, seed)
    return Inquiry(case.example.question, passages, case.example.answers)


def joined_questions(case: BenchmarkCase, following: BenchmarkCase, seed: int) -> Inquiry:
    """RGB's information integration: two answers in two documents.

    A file whose questions have several parts is asked as it is; of others two questions are joined.
    """
    example, other = case.example, following.example
    if len(example.answers) > 1:
        documents = [*_right(case)[:DOCUMENTS], *_noise(case)][:DOCUMENTS]
        return Inquiry(example.question, _mixed(documents, case, seed), example.answers)
    documents = [*_right(case)[:1], *_right(following)[:1], *_noise(case)[: DOCUMENTS - 2]]
    question = f"{_closed(example.question)} {_closed(other.question)}"
    answers = (*example.answers[:1], *other.answers[:1])
    return Inquiry(question, _mixed(documents, case, seed), answers)


def counterfactual(case: BenchmarkCase, following: BenchmarkCase, seed: int) -> Inquiry:
    """RGB's counterfactual robustness: the documents state a wrong answer.

    Where the file brings none, another question's answer stands in place of each gold one.
    """
    example = case.example
    false = [each for each in example.evidence if each.role == "counterfactual"]
    wrong = example.wrong or tuple(following.example.golds[:1])
    if not false:
        golds = sorted(example.golds, key=len, reverse=True)
        for each in _right(case)[:1]:
            text = each.text
            for gold in golds:
                text = text.replace(gold, wrong[0])
            false = [Evidence(text, each.title, "counterfactual")]
    documents = [*false[:2], *_noise(case)][:DOCUMENTS]
    return Inquiry(example.question, _mixed(documents, case, seed), example.answers, wrong)


def _right(case: BenchmarkCase) -> list[Evidence]:
    """The file's positive passages, else what was retrieved and holds an answer."""
    given = [each for each in case.example.evidence if each.role == "positive"]
    found = [Evidence(p.text, p.title) for p in case.retrieved if case.is_right(p)]
    return given or found


def _noise(case: BenchmarkCase) -> list[Evidence]:
    given = [each for each in case.example.evidence if each.role == "negative"]
    found = [Evidence(p.text, p.title) for p in case.retrieved if not case.is_right(p)]
    return given or found


def _mixed(documents: Sequence[Evidence], case: BenchmarkCase, seed: int) -> tuple[Passage, ...]:
    order = random.Random(f"{seed} {case.example.id}").sample(documents, len(documents))
    return tuple(as_passage(each, n) for n, each in enumerate(order, 1))


def _closed(question: str) -> str:
    if question.endswith(("?", "？", "。")):
        return question
    return f"{question}?" if question.isascii() else f"{question}？"


def _ablated(**switches: Any) -> dict[str, Any]:
    return {"ablation": switches}


def _each(options: Mapping[str, Any], *systems: str) -> tuple[Arm, ...]:
    return tuple(Arm(name, name, options) for name in systems or SYSTEMS)


NEEDS: Mapping[str, tuple[str, str]] = MappingProxyType({
    "chat": ("chat_model", "SELFCRAG_CHAT_MODEL=…"),
    "native": ("native_model", "SELFCRAG_NATIVE_MODEL=…"),
    "reranker": ("evaluator_reranker", "SELFCRAG_EVALUATOR_RERANKER=…"),
    "compressor": ("evaluator_compressor", "SELFCRAG_EVALUATOR_COMPRESSOR=…"),
})  # fmt: skip
"""What an arm may need: the setting that brings it, and how the command sets it."""

QUALITY = ("matched", "published", "token_f1", "abstained")
WITH_CHAT = {"generator": "chat"}
WITH_NATIVE = {"generator": "native", "critic": "native"}
CUT_ANYHOW = (
    "The extractive generator cuts ungraded knowledge into strips and grades them itself, so that"
    " the operation is done later rather than left out; a language model is given all of it"
)
GRADED_AGAIN = (
    "Under Ambiguous the strips of irrelevant passages are graded again and dropped; what Incorrect"
    " saves is their pairs"
)
ALWAYS_JOINED = (
    "Every question then has the web's strips beside the local ones; a generator that quotes the"
    " strips of the best grades is not misled by more of them. What it costs is a search and its"
    " pairs for every question"
)
SELDOM = "Few questions have passages between the two thresholds of the shipped evaluator"
SAME_WEB = (
    "The recorded web ranks by words alone, so that keywords and question find much the same pages"
    " there"
)
GOOD_WEB = "The recorded web holds an answer for more questions than the documents that were left"
LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)

EXPERIMENTS: dict[str, Experiment] = {
    "main": Experiment(
        "RAG, CRAG, Self-RAG and Self-CRAG",
        "The main table of the CRAG paper (table 1) over whatever sets were given. Each right"
        f" passage is dropped with probability {DROPPED}, so that local documents miss the answer"
        " of some questions; the web is a recording that misses right pages with"
        f" probability {WEB_MISSES}. A closed set without contexts of its own is asked over"
        " passages that hold nothing of it: `rag` then guesses where the others abstain.",
        (
            *_each({}),
            *(Arm(f"{name}, chat model", name, {}, None, WITH_CHAT, "chat") for name in SYSTEMS),
            *(Arm(f"{name}, Self-RAG's model", name, {}, None, WITH_NATIVE, "native")
              for name in SYSTEMS),
        ),
        (*QUALITY, "readings"), dropped(DROPPED), ("short", "closed", "long"),
    ),
    "actions": Experiment(
        "Actions removed, and alone",
        "What each of the three actions is worth (CRAG, tables 2 and 11): one left out, the other"
        " two deciding, and one taken whatever the grades.",
        (
            Arm("crag", "crag"),
            *(Arm(f"without {name}", "crag", _ablated(without_action=name), note=note)
              for name, note in (("correct", ALWAYS_JOINED), ("incorrect", GRADED_AGAIN),
                                 ("ambiguous", SELDOM))),
            *(Arm(f"only {name}", "crag", _ablated(only_action=name), note=note)
              for name, note in (("correct", CUT_ANYHOW), ("incorrect", GOOD_WEB),
                                 ("ambiguous", ALWAYS_JOINED))),
        ),
        (*QUALITY, "web_searches", "scored_pairs"), dropped(DROPPED),
    ),
    "knowledge": Experiment(
        "Refinement, rewriting and selection removed",
        "What each operation on the knowledge is worth (CRAG, table 3).",
        (
            Arm("crag", "crag"),
            Arm("without refinement", "crag", _ablated(refinement=False), note=CUT_ANYHOW),
            Arm("without rewriting", "crag", _ablated(rewriting=False), note=SAME_WEB),
            Arm("without selection", "crag", _ablated(selection=False), note=CUT_ANYHOW),
            *(Arm(f"{name}, chat model", "crag", options, None, WITH_CHAT, "chat")
              for name, options in (
                  ("crag", {}), ("without refinement", _ablated(refinement=False)),
                  ("without rewriting", _ablated(rewriting=False)),
                  ("without selection", _ablated(selection=False)))),
        ),
        (*QUALITY, "words", "scored_pairs"), dropped(DROPPED),
    ),
    "grader": Experiment(
        "The evaluator against a language model as grader",
        "Whether the action is Correct just where a passage holds the answer (CRAG, table 4), the"
        " language model asked directly, with a chain of thought, and with examples.",
        (
            Arm("evaluator", "crag"),
            *(Arm(f"language model, {name}", "crag", {}, None, {"grader": f"llm_{key}"}, "chat")
              for name, key in (("direct", "direct"), ("chain of thought", "chain_of_thought"),
                                ("few-shot", "few_shot"))),
        ),
        ("judged_right", "action_right", "needless_search", "missing_search", "matched"),
        dropped(0.5),
    ),
    "quality": Experiment(
        "Falling quality of retrieval",
        "Right passages are dropped at random, each with the probability at the end of the row's"
        " name; those dropped at one level are dropped at the next, too (CRAG, figure 3).",
        tuple(
            Arm(f"{name} {level}", name, {}, dropped(level)) for level in LEVELS for name in SYSTEMS
        ),
        ("matched", "abstained", "web_searches"), dropped(0.0), curve=SYSTEMS, group=len(SYSTEMS),
    ),
    "web": Experiment(
        "Always the web, against correction",
        "Whether correction or the web alone makes the difference (CRAG, table 5): `rag` and"
        " `self_rag` always given the web's selected strips as well.",
        tuple(
            arm for corrected, plain in (("crag", "rag"), ("self_crag", "self_rag")) for arm in (
                Arm(corrected, corrected), Arm(plain, plain),
                Arm(f"{plain}, always the web", plain, {"web": "always"}, note=ALWAYS_JOINED))
        ),
        (*QUALITY, "web_searches"), dropped(DROPPED), group=3,
    ),
    "costs": Experiment(
        "Seconds and floating-point operations",
        "What a question costs (CRAG, table 6): seconds on this machine, one question at a time,"
        " no grade known from before, which a load average above its cores prolongs; operations of"
        " the evaluator's matrix products. The extractive generator has none of its own,"
        " so that correction multiplies more here than beside a large language model.",
        _each({}), ("seconds", "load", "gflops", "scored_pairs", "llm_calls"), dropped(DROPPED),
        timed=True, share=0.2,
    ),
    "max_critic": Experiment(
        "Most revisions, 0 to 5",
        "What further rounds of critique and revision bring. The quotations of the extractive"
        " generator are accepted as a rule, or nothing is quoted at all; a language model's drafts"
        " are what is revised.",
        (
            *(Arm(f"max_critic {n}", "self_crag", {"max_critic": n}) for n in range(6)),
            *(Arm(f"max_critic {n}, chat model", "self_crag", {"max_critic": n}, None, WITH_CHAT,
                  "chat") for n in range(6)),
        ),
        ("matched", "published", "token_f1", "faithfulness", "rounds", "accepted", "scored_pairs"),
        dropped(DROPPED), judged=True, share=0.2,
    ),
    "robustness": Experiment(
        "Noise, rejection, integration, counterfactuals",
        f"RGB's four abilities over {DOCUMENTS} documents a question, without the web: a share of"
        " noise; nothing but noise, where an abstention is right; two answers in two documents; a"
        " document that states a wrong answer.",
        tuple(
            Arm(f"{name}, {label}", name, {"web": "never"}, setup)
            for label, setup in (
                *((f"noise {share}", noisy(share)) for share in (0.0, 0.2, 0.4, 0.6, 0.8)),
                ("rejection", only_noise), ("integration", joined_questions),
                ("counterfactual", counterfactual),
            )
            for name in ("rag", "crag", "self_crag")
        ),
        ("matched", "published", "abstained", "repeats_wrong"), noisy(0.0), share=0.3, group=3,
    ),
    "practices": Experiment(
        "Best practices, module by module",
        "One module changed at a time against `rag` as it is by default (arXiv 2407.01219), over"
        " the whole knowledge base.",
        (
            Arm("rag", "rag"),
            Arm("classification", "crag", {"retrieval": "adaptive", "web": "never"}),
            Arm("no classification", "crag", {"retrieval": "always", "web": "never"}),
            Arm("search: bm25", "rag", {"search": "bm25"}),
            Arm("search: dense", "rag", {"search": "dense"}),
            Arm("search: reciprocal ranks", "rag", _ablated(fusion="rrf")),
            Arm("search: sub-questions", "rag", {"expand": ["decompose"]}),
            Arm("search: rewritten", "rag", {"expand": ["rewrite"]}, None, WITH_CHAT, "chat"),
            Arm("search: HyDE", "rag", {"expand": ["hyde"]}, None, WITH_CHAT, "chat"),
            Arm("rerank: term weights", "rag", {"rerank": "lexical"}),
            Arm("rerank: evaluator", "rag", {"rerank": "evaluator"}),
            Arm("rerank: model", "rag", {"rerank": "model"}, needs="reranker"),
            *(Arm(f"repack: {name}", "rag", {"repack": name})
              for name in ("forward", "reverse", "sides")),
            Arm("compress: extractive", "rag", {"compress": "extractive"}),
            Arm("compress: abstractive", "rag", {"compress": "abstractive"}, None, WITH_CHAT,
                "chat"),
            Arm("compress: LongLLMLingua", "rag", {"compress": "longllmlingua"},
                needs="compressor"),
            Arm("compress: selective context", "rag", {"compress": "selective_context"},
                needs="compressor"),
        ),
        ("matched", "published", "token_f1", "recall", "ndcg", "scored_pairs"), searched, share=0.2,
    ),
    "attribution": Experiment(
        "Support, citations, long answers",
        "FactScore-like support (sentences that the kept knowledge supports, as the evaluator"
        " finds), precision and recall of citations, and of ASQA the short answers found for each"
        " reading, ROUGE-L against the long answers, and length in words. Quotations are supported"
        " by what they quote, so that these figures tell of a language model. Disambig-F1 and MAUVE"
        " are left out: both need models of their own.",
        (
            *_each({}),
            *(Arm(f"{name}, chat model", name, {}, None, WITH_CHAT, "chat") for name in SYSTEMS),
        ),
        ("faithfulness", "citation_precision", "citation_recall", "readings", "rouge_l", "words"),
        dropped(DROPPED), ("short", "long"), judged=True, share=0.2,
    ),
}  # fmt: skip
