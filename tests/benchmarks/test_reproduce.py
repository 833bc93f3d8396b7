"""The papers' tables: published formats, what arms are asked from, pages, resumed runs."""

import gzip
import json
import sys
from argparse import Namespace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reproduce import __main__ as command
from benchmarks.reproduce.experiments import (
    EXPERIMENTS,
    NEEDS,
    counterfactual,
    dropped,
    joined_questions,
    noisy,
    only_noise,
)
from benchmarks.reproduce.formats import BenchmarkExample, Evidence, UnknownFormat, read_examples
from benchmarks.reproduce.material import BenchmarkCase, as_passage
from benchmarks.reproduce.measures import rouge_l
from benchmarks.reproduce.report import page_of
from evaluator.settings import WEIGHTS
from graphs.options import Context
from tests.loopback.openai import OpenAIServer

HERE = Path(command.__file__).parent
MILL = "The mill at Orrin grinds barley. It was built in 1871 by Ada Brookes."
FERRY = "The ferry to Sula leaves at noon from the north quay."
FORMATS: dict[str, tuple[str, BenchmarkExample]] = {
    "self_rag.jsonl": (
        '{"question": "Who built it?", "answers": ["Ada"], "q_id": 7, "ctxs": ['
        '{"id": 1, "title": "Mill", "text": "Ada did."}, {"title": "Empty", "text": ""}]}',
        BenchmarkExample("7", "Who built it?", (("Ada",),), (Evidence("Ada did.", "Mill"),)),
    ),
    "long.jsonl": (
        '{"input": "Tell of it.", "id": "a", "output": "It is old.", "docs": ["Old it is."]}',
        BenchmarkExample("a", "Tell of it.", (("It is old.",),), (Evidence("Old it is."),)),
    ),
    "popqa.tsv": (
        "id\tsubj\tquestion\tpossible_answers\n"
        '0\tAda\tWhat did she do?\t"[""miller"", ""grinder""]"\n',
        BenchmarkExample("0", "What did she do?", (("miller", "grinder"),)),
    ),
    "pubhealth.jsonl": (
        '{"id": 3, "claim": "Tea cures it.", "label": "REFUTES"}',
        BenchmarkExample(
            "3", "Is this statement true or false? Tea cures it.", (("false",),),
            choices=("true", "false"),
        ),
    ),
    "arc.jsonl": (
        '{"id": "M1", "question": {"stem": "Which?", "choices": [{"text": "Wind", "label": "1"},'
        ' {"text": "Rain", "label": "2"}]}, "answerKey": "2"}',
        BenchmarkExample("M1", "Which?", (("Rain",),), choices=("Wind", "Rain")),
    ),
    "arc_self_rag.jsonl": (
        '{"id": "M2", "question": "Which? A: Wind B: Rain", "answerKey": "A",'
        ' "choices": {"text": ["Wind", "Rain"], "label": ["A", "B"]}}',
        BenchmarkExample("M2", "Which? A: Wind B: Rain", (("Wind",),), choices=("Wind", "Rain")),
    ),
    "triviaqa.json": (
        '{"Data": [{"QuestionId": "t1", "Question": "Where to?",'
        ' "Answer": {"Value": "Sula", "Aliases": ["Sula", "Isle of Sula"]}}]}',
        BenchmarkExample("t1", "Where to?", (("Sula", "Isle of Sula"),)),
    ),
    "asqa.json": (
        '{"dev": {"-5": {"ambiguous_question": "When was it built?", "qa_pairs": ['
        '{"question": "When was the mill built?", "short_answers": ["1871"]}],'
        ' "annotations": [{"long_answer": "The mill was built in 1871."}]}}}',
        BenchmarkExample(
            "-5", "When was it built?", long_answers=("The mill was built in 1871.",),
            parts=(("When was the mill built?", ("1871",)),),
        ),
    ),
    "squad.json": (
        '{"data": [{"title": "Old_Mill", "paragraphs": [{"context": "Ada did.", "qas": ['
        '{"id": "s1", "question": "Who ran away?", "answers": [], "is_impossible": true}]}]}]}',
        BenchmarkExample(
            "s1", "Who ran away?", (), (Evidence("Ada did.", "Old Mill", "negative"),),
            answerable=False,
        ),
    ),
    "rgb.json": (
        '{"id": 0, "query": "谁建的？何时？", "answer": [["艾达"], ["1871年", "1871"]],'
        ' "positive": [["艾达建的。"], ["建于1871年。"]], "negative": ["渡船中午开。"],'
        ' "positive_wrong": ["建于1900年。"], "fakeanswer": "1900年"}',
        BenchmarkExample(
            "0", "谁建的？何时？", (("艾达",), ("1871年", "1871")),
            (
                Evidence("艾达建的。", "", "positive"), Evidence("建于1871年。", "", "positive"),
                Evidence("渡船中午开。", "", "negative"),
                Evidence("建于1900年。", "", "counterfactual"),
            ),
            wrong=("1900年",),
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMATS)
def test_a_published_format_is_read(name: str, tmp_path: Path) -> None:
    text, example = FORMATS[name]
    (tmp_path / name).write_bytes(gzip.compress(text.encode()))

    assert read_examples(tmp_path / name) == [example]


def test_biographies_are_names_and_faults_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "names.txt"
    file.write_text("Ada Brookes\n林徽因\n", "utf-8")
    [ada, lin] = read_examples(file)
    assert ("Ada Brookes" in ada.question, "林徽因" in lin.question) == (True, True)
    assert (ada.kind, lin.language) == ("long", "zh")
    for text in ('{"id": 1, "text": "no question"}', "{broken", "",
                 '{"id": 1, "question": "a"}\n{"id": 1, "question": "b"}'):  # fmt: skip
        file.write_text(text, "utf-8")
        with pytest.raises(UnknownFormat, match=r"names\.txt"):
            read_examples(file)


def case(answer: str, *texts: str, name: str = "one") -> BenchmarkCase:
    passages = tuple(as_passage(Evidence(text), n) for n, text in enumerate(texts, 1))
    return BenchmarkCase(BenchmarkExample(name, f"Who is {name}", ((answer,),)), passages)


MANY = [case("Ada", "Ada built it.", "Bo slept.", f"Ada, {n}.", name=str(n)) for n in range(60)]


def kept(share: float) -> set[str]:
    setups = ((each, dropped(share)(each, each, 0)) for each in MANY)
    return {f"{c.example.id} {p.text}" for c, asked in setups for p in asked.passages or ()}


def test_right_passages_fall_away_with_the_level_and_the_others_stay() -> None:
    levels = [kept(share) for share in (0.0, 0.4, 0.8, 1.0)]
    assert all(more > less for more, less in pairwise(levels))
    assert [len(level) for level in (levels[0], levels[-1])] == [180, 60]
    assert 0.45 < (len(levels[1]) - 60) / 120 < 0.75
    assert kept(0.4) == kept(0.4)


def test_rgb_s_documents() -> None:
    one = case("Ada", "Ada built it.", "Bo slept.", "Cy ran.", "Di sang.", "Ed left.", "Fay ate.")
    two = case("noon", "It leaves at noon.", "Gus swam.", name="two")

    def texts(asked: Any) -> set[str]:
        return {passage.text for passage in asked.passages}

    assert "Ada built it." in texts(noisy(0.8)(one, two, 0))
    assert len(texts(noisy(0.8)(one, two, 0))) == 5
    assert "Ada built it." not in texts(only_noise(one, two, 0))
    both = joined_questions(one, two, 0)
    assert both.answers == (("Ada",), ("noon",))
    assert {"Ada built it.", "It leaves at noon."} < texts(both)
    false = counterfactual(one, two, 0)
    assert (false.wrong, "noon built it." in texts(false)) == (("noon",), True)
    assert "Ada built it." not in texts(false)


def test_arms_are_named_once_and_their_options_are_known() -> None:
    for experiment in EXPERIMENTS.values():
        names = [arm.name for arm in experiment.arms]
        assert len(set(names)) == len(names)
        for arm in experiment.arms:
            Context.model_validate(dict(arm.options))
            assert not arm.needs or arm.needs in NEEDS


def test_rouge_l_is_f1_of_what_stands_in_order() -> None:
    assert rouge_l("the mill is old", "The mill is very old.") == pytest.approx(2 * 3 / 7)
    assert rouge_l("磨坊很旧", "磨坊旧") == pytest.approx(6 / 7)
    assert rouge_l("", "old") == 0.0


@pytest.mark.parametrize("file", sorted(HERE.glob("*.json")), ids=lambda file: file.stem)
def test_the_kept_page_is_that_of_the_kept_figures(file: Path) -> None:
    figures = json.loads(file.read_text("utf-8"))
    page = page_of(figures, pictured=file.with_suffix(".png").exists())
    assert file.with_suffix(".md").read_text("utf-8") == page


def asked(folder: Path, *experiments: str) -> dict[str, bytes]:
    """Runs the command over two sets; what it wrote, by the name of the file."""
    folder.mkdir(exist_ok=True)
    rows = [
        {"id": "m", "question": "Who built the mill at Orrin?", "answers": ["Ada Brookes"],
         "title": "Orrin", "passage": MILL},
        {"id": "f", "question": "When does the ferry to Sula leave?", "answers": ["noon"],
         "title": "Sula", "passage": FERRY},
    ]  # fmt: skip
    contexts = [{"title": "苏拉", "text": "去苏拉的渡船中午从北码头出发。"},
                {"title": "奥林", "text": "奥林村的磨坊建于1871年。"}]  # fmt: skip
    zh = {"id": "z", "question": "苏拉的渡船几点出发？", "answers": ["中午"], "ctxs": contexts}
    (folder / "en.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    (folder / "zh.jsonl").write_text(json.dumps(zh), "utf-8")
    command.main(
        Namespace(
            experiments=list(experiments), data=[folder / "en.jsonl", folder / "zh.jsonl"],
            corpus=[], limit=0, seed=0, live_web=False, work=folder / "work", out=folder / "out",
        )
    )  # fmt: skip
    return {file.name: file.read_bytes() for file in (folder / "out").iterdir()}


@pytest.mark.slow
def test_interrupted_and_other_runs_give_the_same_bytes(tmp_path: Path) -> None:
    once = asked(tmp_path / "a", "web", "quality")
    assert set(once) == {"web.json", "web.md", "quality.json", "quality.md", "quality.png"}
    figures = json.loads(once["quality.json"])
    arms = figures["sets"]["en"]["arms"]
    assert [arms[f"rag {level}"]["matched"]["mean"] for level in ("0.0", "1.0")] == [1.0, 0.0]

    [values] = (tmp_path / "a/work").glob("en-*/values.jsonl")
    lines = values.read_text("utf-8").splitlines()
    values.write_text("\n".join(lines[: len(lines) // 2])[:-9], "utf-8")  # torn
    assert asked(tmp_path / "a", "web", "quality") == once
    assert len(values.read_text("utf-8").splitlines()) > len(lines) // 2
    assert asked(tmp_path / "b", "web", "quality") == once


@pytest.mark.slow
def test_costs_count_operations_and_no_grade_is_known_before(tmp_path: Path) -> None:
    page = json.loads(asked(tmp_path, "costs")["costs.json"])["sets"]["en"]["arms"]
    gflops = {name: row["gflops"]["mean"] for name, row in page.items()}
    shape = json.loads((WEIGHTS / "config.json").read_text("utf-8"))
    per_token = 2 * shape["layers"] * shape["d_model"] * (4 * shape["d_model"] + 2 * shape["d_ff"])
    assert gflops["crag"] > gflops["rag"] > per_token * 10 / 1e9
    assert all(row["seconds"]["mean"] > 0 for row in page.values())


@pytest.mark.slow
def test_a_language_model_fills_its_rows(
    tmp_path: Path, openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    blank = asked(tmp_path, "grader")["grader.md"].decode()
    assert "| language model, few-shot | |" in blank
    assert "SELFCRAG_CHAT_MODEL" in blank

    monkeypatch.setenv("SELFCRAG_CHAT_MODEL", f"openai:m@{openai_server.base_url}")
    filled = json.loads(asked(tmp_path, "grader")["grader.json"])["sets"]["en"]["arms"]
    assert filled["language model, few-shot"]["matched"]["n"] == 2


def test_unknown_experiments_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["reproduce", "nothing", "--data", "x"])
    with pytest.raises(SystemExit):
        command.arguments()
    assert "unknown experiment nothing" in capsys.readouterr().err
