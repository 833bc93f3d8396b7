"""`selfcrag` in this process: asking, ingesting, and what mistakes are told."""

import io
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from app.cli.main import cli
from app.cli.terminal import RunPrinter
from app.errors import StartFailed
from app.main import listen
from app.schemas.ask import RetractEvent, StepEvent
from tests.umbra import CHINESE, ENGLISH

Command = Callable[..., Result]


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data_dir: Path, clean_environment: None
) -> Command:
    """Runs a command line over the small knowledge base, without the web."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("SELFCRAG_DATA_DIR", str(data_dir))
    monkeypatch.setenv("SELFCRAG_SEARCH", "off")

    def run(*words: str, **settings: str) -> Result:
        env = {f"SELFCRAG_{name}".upper(): value for name, value in settings.items()}
        return CliRunner().invoke(cli, list(words), env=env)

    return run


def told(result: Result) -> str:
    """The one clear line of a command that failed."""
    assert result.exit_code == 1, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("selfcrag: ")
    return result.stderr


@pytest.mark.parametrize(("question", "said"), [(ENGLISH, "87 metres"), (CHINESE, "八十七米")])
def test_ask_tells_the_steps_the_grades_and_the_sources(
    command: Command, question: str, said: str
) -> None:
    bounds = ("-o", "strip_floor=0.3", "-o", "lower=-20")
    result = command("ask", question, "--workflow", "crag", *bounds)
    lines = result.stdout.splitlines()

    assert result.exit_code == 0, result.output
    for step in ("retrieve", "grade", "refine", "generate"):
        assert any(f"ms  {step} …" in line for line in lines), "begins"
        assert any(f"ms  {step} (" in line for line in lines), "ends, with its time"
    graded = ["correct", "lower -20.00"] if question == ENGLISH else ["正确", "下阈值 -20.00"]
    assert any(all(words in line for words in graded) for line in lines)
    assert any("tower.md]" in line and line.strip()[0] in "+-" for line in lines), "graded"
    assert any(line.strip().startswith("kept ") and said in line for line in lines)
    assert any(line.strip().startswith("dropped ") for line in lines)
    assert any(line.strip().startswith("[1] ") and "tower.md" in line for line in lines)
    assert lines[-1] == "crag · correct · answered · generator extractive"


@pytest.mark.parametrize("question", [ENGLISH, CHINESE])
def test_ask_tells_decision_drafts_and_critique(command: Command, question: str) -> None:
    result = command("ask", question, "-o", "min_utility=1.0", "-o", "min_support=0.0")
    lines = [line.strip() for line in result.stdout.splitlines()]

    assert result.exit_code == 0, result.output
    english = question == ENGLISH
    needed, round_0 = (
        ("Retrieval is needed (p ", "Critique round 0: ")
        if english
        else ("需要检索（p ", "第 0 轮评判：")
    )
    assert any(line.startswith(needed) for line in lines)
    assert any(line.startswith("chosen 1  relevance ") for line in lines)
    [verdict] = [line for line in lines if line.startswith(round_0)]
    for name in ("support", "utility", "score") if english else ("支持度", "有用度", "得分"):
        assert f"{name} " in verdict
    assert any("ms  reflect › critique (" in line for line in lines)
    assert lines[-1].startswith("self_crag · correct · ")


def test_a_rejected_draft_is_told_with_its_criticism() -> None:
    """Criticism quotes drafts, and drafts may hold what looks like the console's markup."""
    entry = {"round": 0, "relevance": None, "support": 0.2, "utility": -0.5, "score": 0.1}
    entry |= {"criticism": 'Not supported: "[/bold] It is so [1]."', "accepted": False}
    said = Console(record=True, width=120, file=io.StringIO())
    printer = RunPrinter(said, ENGLISH)
    for step in ("critique", "criticise"):
        path, detail = ["reflect", step], {"critique": entry}
        printer.tell(StepEvent(step=step, path=path, phase="end", at_ms=1, detail=detail))
    printer.tell(RetractEvent(round=0, reason=str(entry["criticism"])))
    lines = [line.strip() for line in said.export_text().splitlines()]

    judged = "(support 0.20, utility -0.50, score 0.10)"
    assert f"Critique round 0: rejected {judged}." in lines
    assert 'Criticism: Not supported: "[/bold] It is so [1]."' in lines
    assert "The draft is withdrawn." in lines


def test_ask_prints_json_and_nothing_else(command: Command) -> None:
    result = command("ask", CHINESE, "--json", "--workflow", "rag", "-o", "retrieve_k=3")
    answer = json.loads(result.stdout)

    assert result.exit_code == 0
    assert answer["workflow"] == "rag"
    assert len(answer["documents"]) == 3
    assert answer["citations"]
    assert "八十七米" in result.stdout, "not escaped"


def test_ask_asks_within_a_collection(command: Command) -> None:
    (page := Path("gate.md")).write_text("# Gate\n\nThe gate of Orm weighs nine tons.\n", "utf-8")
    asked = ("ask", "What does the gate of Orm weigh?", "--json", "--workflow", "rag")
    assert "There is no collection 'gates'" in told(command(*asked, "--collection", "gates"))
    assert command("ingest", str(page), "--collection", "gates").exit_code == 0
    assert "nine tons" in command(*asked, "--collection", "gates").stdout
    assert "nine tons" not in command(*asked).stdout
    page.unlink()
    assert command("ingest", str(page), "--collection", "gates", "--prune").exit_code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("Who?", "-o", "upper=high"), "options.upper"),
        (("Who?", "-o", "upper=30"), "options.upper"),
        (("Who?", "-o", "nope=1"), "options.nope"),
        (("Who?", "-o", "upper"), "name=value"),
        (("Who?", "-o", "upper=0.1", "-o", "lower=0.2"), "lower (0.2) lies above upper (0.1)"),
        (("Who?", "--workflow", "nope"), "rag, crag, self_rag, self_crag, illustrate"),
        (("",), "question"),
        (("a" * 8001,), "8000"),
        (("a\x07b",), "U+0007"),
    ],
)
def test_a_wrong_question_is_one_clear_line(
    command: Command, words: tuple[str, ...], said: str
) -> None:
    assert said in told(command("ask", *words))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"evaluator_weights": "/nowhere"}, "/nowhere"),
        (
            {"worker_url": "http://127.0.0.1:9"},
            "Is the worker running? `selfcrag-evaluator serve` starts one.",
        ),
        ({"search": "tavily"}, "TAVILY_API_KEY"),
    ],
)
def test_a_part_that_is_missing_is_one_clear_line(
    command: Command, settings: dict[str, str], said: str
) -> None:
    for which in (("ask", "Who?"), ("serve", "--port", "0")):
        assert said in told(command(*which, **settings))


def test_a_taken_port_is_one_clear_line(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = told(command("serve", "--port", str(port)))
        assert line == told(command("serve", port=str(port)))

    assert f"127.0.0.1:{port}" in line
    assert "SELFCRAG_PORT" in line


def test_a_port_is_taken_while_the_service_still_loads() -> None:
    with listen("127.0.0.1", 0) as loading:
        port = loading.getsockname()[1]
        with pytest.raises(StartFailed, match=f"127.0.0.1:{port}"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_is_a_port(command: Command, port: str) -> None:
    result = command("serve", "--port", port)
    assert result.exit_code == 2
    assert "--port" in result.stderr


def test_a_host_that_is_not_ours_is_one_clear_line(command: Command) -> None:
    assert "192.0.2.1" in told(command("serve", "--host", "192.0.2.1", "--port", "0"))
