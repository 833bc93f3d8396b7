"""Extensions: found by entry points, left out by a setting, brought by other packages."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from app.errors import StartFailed
from app.extension import installed, load_extensions, settings_of
from app.settings import unknown_settings
from tests import fakes
from tests.app.serving import Serving

HANDBOOK = Path(__file__).parents[2] / "docs" / "en" / "develop" / "extensions.md"
WEBHOOK = HANDBOOK.read_text(encoding="utf-8").split("```")[1].removeprefix("text\n")


@pytest.fixture
def webhook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of somebody else's, as pip leaves it on the path."""
    site = tmp_path / "site"
    about = site / "webhook_extension-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "webhook_extension.py").write_text(WEBHOOK, encoding="utf-8")
    (about / "METADATA").write_text("Name: webhook-extension\nVersion: 1.0\n", encoding="utf-8")
    entry = "[selfcrag.extensions]\nwebhook = webhook_extension:extension\n"
    (about / "entry_points.txt").write_text(entry, encoding="utf-8")
    monkeypatch.syspath_prepend(site)
    installed.cache_clear()
    yield
    installed.cache_clear()
    sys.modules.pop("webhook_extension", None)


def test_a_package_of_somebody_elses_brings_a_route_and_a_setting(
    webhook: None, serve: Callable[..., Serving], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SELFCRAG_WEBHOOK_WORKFLOW", "rag")
    monkeypatch.setenv("SELFCRAG_WEBHOOK_WORKFLOWS", "rag")
    retriever = fakes.FakeRetriever([fakes.passage("The red tower of Umbra is 87 metres tall.")])
    serving = serve(fakes.services(retriever))

    answer = serving.client.post("/webhook", data={"text": "How tall is the red tower of Umbra?"})
    assert "87 metres" in answer.json()["text"]
    assert [run["workflow"] for run in serving.client.get("/runs").json()["runs"]] == ["rag"]
    (line,) = unknown_settings(settings_of(load_extensions()))
    assert "did you mean SELFCRAG_WEBHOOK_WORKFLOW?" in line


EVERY = sorted(installed())


def test_what_is_off_is_not_imported_and_the_core_answers(tmp_path: Path) -> None:
    code = f"""
        import sys
        from app.settings import Settings
        from tests import fakes
        from tests.app.serving import Serving, app_of
        settings = Settings(_env_file=None, data_dir={str(tmp_path)!r}, extensions_off={EVERY})
        with Serving(app_of(fakes.services(), settings)) as serving:
            assert serving.ask("How tall is it?")["run_id"]
            for path in ("/v1/models", "/ask/ui", "/assistants/rag"):
                missing = serving.client.get(path)
                assert missing.headers["content-type"] == "application/problem+json"
                assert missing.status_code == 404, path
            described = serving.client.get("/openapi.json").json()["paths"]
            assert "/ask" in described and "/ask/ui" not in described
        assert not [name for name in sys.modules if name.startswith("app.extensions.")]
    """
    subprocess.run([sys.executable, "-c", dedent(code)], check=True, timeout=120)


def test_an_extension_that_is_not_there_ends_the_start() -> None:
    with pytest.raises(StartFailed, match=r"no extension opnai; installed: .*openai"):
        load_extensions(["opnai"])


def test_an_extension_that_cannot_be_imported_is_named(webhook: None, tmp_path: Path) -> None:
    (tmp_path / "site" / "webhook_extension.py").write_text("import not_installed")
    with pytest.raises(StartFailed, match="extension webhook cannot be loaded"):
        load_extensions(EVERY)
    assert load_extensions([*EVERY, "webhook"]) == []
