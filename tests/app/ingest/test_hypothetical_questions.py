"""Hypothetical questions at ingest: found by them; a failing model costs nothing but them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.outputs import ChatGenerationChunk

from app.cli import ingest as command
from app.errors import StartFailed
from app.ingest.pipeline import MAX_QUESTION_FAILURES, Questioner, ingest
from app.retrieval.retriever import HybridRetriever
from app.settings import StateSettings
from graphs.errors import GeneratorFailed
from tests.loopback.openai import MODEL, OPENAI_KEY, OpenAIServer


class Failing(FakeListChatModel):
    """Fails from the first call on."""

    async def _astream(self, *_: object, **__: object) -> AsyncIterator[ChatGenerationChunk]:
        raise GeneratorFailed("the endpoint is away")
        yield  # an async generator


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "docs"
    folder.mkdir()
    for name in ("clock", "mirror", "table", "vase", "lamp"):
        (folder / f"{name}.md").write_text(f"# {name}\n\nThe {name} stands in the hall.\n", "utf-8")
    return folder


async def test_a_chunk_is_found_by_its_questions(retriever: HybridRetriever, docs: Path) -> None:
    questioner = Questioner(
        FakeListChatModel(responses=["Which chronometer ticks?"]), 1, retriever.segmenter
    )
    only = [docs / "clock.md"]
    await ingest(only, retriever.index, retriever.segmenter, questioner=questioner)
    await ingest([docs], retriever.index, retriever.segmenter)
    first, *_ = await retriever.retrieve("a chronometer", 5)
    assert (first.source, first.text) == ("docs/clock.md", "The clock stands in the hall.")
    assert questioner.note == ""


async def test_a_failing_model_is_told_and_the_documents_are_in(
    retriever: HybridRetriever, docs: Path
) -> None:
    questioner = Questioner(Failing(responses=[]), 2, retriever.segmenter)
    report = await ingest([docs], retriever.index, retriever.segmenter, questioner=questioner)
    assert len(report.added) == 5 > MAX_QUESTION_FAILURES
    assert questioner.note == "5 chunks without hypothetical questions: the endpoint is away"
    assert (await retriever.retrieve("Where is the vase?", 5))[0].source == "docs/vase.md"


async def test_the_command_asks_the_chat_model(
    docs: Path,
    openai_server: OpenAIServer,
    clean_environment: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    openai_server.says = "Which chronometer ticks?"
    state = StateSettings(_env_file=None, data_dir=docs.parent / "state", hypothetical_questions=1)
    with pytest.raises(StartFailed, match="no chat model is chosen: set SELFCRAG_CHAT_MODEL"):
        await command.ingest([str(docs / "clock.md")], state)

    monkeypatch.setenv("SELFCRAG_CHAT_MODEL", f"openai:{MODEL}@{openai_server.base_url}")
    monkeypatch.setenv("SELFCRAG_CHAT_API_KEY", OPENAI_KEY)
    await command.ingest([str(docs / "clock.md")], state)
    assert len(openai_server.requests) == 1
    assert "without hypothetical questions" not in capsys.readouterr().err
