"""Settings from the environment: what chooses a provider, and what a mistake is told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from app.cli.main import cli
from app.composition import services
from app.composition.services import asks_chat, open_services
from app.errors import StartFailed
from app.settings import Settings, StateSettings, load_settings, model_address

SECRET = "sk-very-secret-4711"


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clean_environment: None) -> Path:
    """No settings but those of the test, and an empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(kind: type[StateSettings] = Settings) -> str:
    """The one line that the start ends with; it holds no secret."""
    with pytest.raises(StartFailed) as failed:
        load_settings(kind)
    message = str(failed.value)
    assert "\n" not in message
    assert SECRET not in message
    return message


def test_nothing_set_needs_nothing() -> None:
    settings = load_settings(Settings)

    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.data_dir == Path(".selfcrag").resolve()
    assert (settings.generator, settings.search, settings.worker_url) == (
        *("extractive", "wikipedia"),
        (),
    )


def test_keys_alone_switch_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("TAVILY_API_KEY", SECRET)
    settings = load_settings(Settings)

    assert (settings.generator, settings.search) == ("extractive", "wikipedia")
    assert not asks_chat(settings)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("SELFCRAG_GENERATOR", "chat", "SELFCRAG_CHAT_MODEL"),
        ("SELFCRAG_GENERATOR", "native", "SELFCRAG_NATIVE_MODEL"),
        ("SELFCRAG_CRITIC", "llm", "SELFCRAG_CHAT_MODEL"),
        ("SELFCRAG_CRITIC", "native", "SELFCRAG_GENERATOR=native"),
        ("SELFCRAG_GRADER", "llm_few_shot", "SELFCRAG_CHAT_MODEL"),
        ("SELFCRAG_SEARCH", "tavily", "TAVILY_API_KEY"),
        ("SELFCRAG_SEARCH", "searxng", "searxng@http://127.0.0.1:8080"),
        ("SELFCRAG_SEARCH", "fixture", "fixture@results.json"),
    ],
)
def test_a_provider_without_what_it_needs_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, wanted: str
) -> None:
    monkeypatch.setenv(name, value)
    message = refusal()

    assert wanted in message
    assert value in message


@pytest.mark.parametrize(
    ("words", "name", "value", "wanted"),
    [
        (("keys", "list"), "SELFCRAG_EMBEDDER", "openai:m", "needs SELFCRAG_EMBEDDER_KEY"),
        (("ingest", "一.md"), "SELFCRAG_CHUNK_TOKENS", "abc", "SELFCRAG_CHUNK_TOKENS: Input"),
    ],
)
def test_a_command_tells_a_wrong_setting_and_no_password(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], name: str, value: str, wanted: str
) -> None:
    monkeypatch.setenv("SELFCRAG_DATABASE_URL", f"postgresql://u:{SECRET}@127.0.0.1:1/x")
    monkeypatch.setenv(name, value)
    monkeypatch.setenv("COLUMNS", "300")
    done = CliRunner().invoke(cli, words)

    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit), "no traceback"
    assert done.output.startswith("selfcrag: ")
    assert wanted in done.output
    assert SECRET not in done.output
    assert done.output.count("\n") == 1


@pytest.mark.parametrize(("words", "encoding"), [(("serve",), "gbk"), (("keys", "list"), "utf-16")])
def test_an_env_file_that_is_not_utf_8_is_told_in_one_line(
    bare: Path, words: tuple[str, ...], encoding: str
) -> None:
    (bare / ".env").write_text("# 服务的端口\nSELFCRAG_PORT=8123\n", encoding=encoding)
    done = CliRunner().invoke(cli, words)

    assert done.exit_code == 1
    assert done.output == "selfcrag: .env is not UTF-8: save it as UTF-8\n"


def test_an_env_file_of_notepad_is_read(bare: Path) -> None:
    (bare / ".env").write_text("SELFCRAG_PORT=8123\n", encoding="utf-8-sig")
    assert load_settings(Settings).port == 8123


def test_a_working_directory_that_is_gone_is_told_in_one_line(bare: Path) -> None:
    bare.rmdir()
    done = CliRunner().invoke(cli, ["keys", "list"])

    assert done.exit_code == 1
    assert done.output.startswith("selfcrag: SELFCRAG_DATA_DIR: .selfcrag is relative")


def test_a_misspelt_setting_is_told_with_the_nearest(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELFCRAG_SERCH=off\nSELFCRAG_EVALUATOR_THREADS=1\nOTHERS=9\nSELFCRAG_HOST=1.2.3.4\n"
    (bare / ".env").write_text(text, encoding="utf-8")
    monkeypatch.setenv("SELFCRAG_CHAT_API_KEY", SECRET)
    monkeypatch.setenv("SELFCRAG_QQQQ", SECRET)
    told = CliRunner().invoke(cli, ["serve"]).stderr.splitlines()

    assert told[:2] == [
        "selfcrag: unknown setting SELFCRAG_QQQQ ignored",
        "selfcrag: unknown setting SELFCRAG_SERCH ignored; did you mean SELFCRAG_SEARCH?",
    ]
    assert told[2].startswith("selfcrag: "), "then it refuses to serve others without keys"
    assert len(told) == 3


@pytest.mark.parametrize("kind", [Settings, StateSettings])
def test_a_wrong_setting_told_raw_holds_no_password(
    monkeypatch: pytest.MonkeyPatch, kind: type[StateSettings]
) -> None:
    monkeypatch.setenv("SELFCRAG_DATABASE_URL", f"postgresql://u:{SECRET}@127.0.0.1:1/x")
    monkeypatch.setenv("SELFCRAG_EMBEDDER", "openai:m")
    with pytest.raises(ValidationError) as refused:
        kind()
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("model", "needs_key"),
    [
        ("openai:m@http://localhost:8080/v1", False),
        ("openai:m@http://[::1]:8080/v1", False),
        ("openai:m@http://192.168.1.7/v1", False),
        ("openai:m@http://vllm:8000/v1", False),
        ("openai:m@http://gpu.local/v1", False),
        ("openai:m@https://api.example.com/v1", True),
        ("openai:m@https://8.8.8.8/v1", True),
        ("openai:m", True),
        ("anthropic:m", False),  # its package looks for its key
    ],
)
def test_a_server_of_one_s_own_needs_no_key(
    monkeypatch: pytest.MonkeyPatch, model: str, needs_key: bool
) -> None:
    for name, value in (
        ("GENERATOR", "chat"),
        ("CRITIC", "llm"),
        ("CHAT_MODEL", model),
        ("FALLBACK_MODEL", model),
    ):
        monkeypatch.setenv(f"SELFCRAG_{name}", value)
    if needs_key:
        with pytest.raises(StartFailed, match="CHAT_MODEL needs SELFCRAG_CHAT_API_KEY or OPENAI_"):
            load_settings(Settings)
        monkeypatch.setenv("SELFCRAG_CHAT_API_KEY", SECRET)
        with pytest.raises(StartFailed, match=r"^SELFCRAG_FALLBACK_MODEL needs SELFCRAG_FALL"):
            load_settings(Settings)
    else:
        assert load_settings(Settings).generator == "chat"


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("openai:qwen3:8b@http://127.0.0.1:1/v1", ("openai", "qwen3:8b", "http://127.0.0.1:1/v1")),
        ("openai:m@https://u:p@gpu/v1", ("openai", "m", "https://u:p@gpu/v1")),
        ("openai:gpt-4.1-mini", ("openai", "gpt-4.1-mini", "https://api.openai.com/v1")),
        ("vertex:claude@20240229", ("vertex", "claude@20240229", "")),
        ("vertex:claude@2024@https://[::1]:8", ("vertex", "claude@2024", "https://[::1]:8")),
    ],
)
def test_a_model_is_a_provider_a_name_and_an_address(value: str, named: tuple[str, ...]) -> None:
    assert model_address(value) == named


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        *(
            ("CHAT_MODEL", value, "provider:model@url is expected, without blanks, such as openai:")
            for value in (
                *("gpt-4.1", "openai:", ":gpt", "openai: gpt 4"),
                f"qwen3@http://u:{SECRET}@127.0.0.1:11434/v1",
                f"openai:qwen3@u:{SECRET}@127.0.0.1:11434/v1",
                f"openai:m@http://u:{SECRET}：@127.0.0.1:1/v1",
                *("openai:m@http://h:abc/v1", "openai:m@http://[::1/v1", "openai:m@ftp://h/v1"),
                *("anthropic:m@10.0.0.1", "openai:m@gpu", "openai:m@http://h/v 1"),
            )
        ),
        ("GENERATOR", "openai", "'extractive', 'chat' or 'native'"),
        ("NATIVE_MODEL", f"anthropic:m@http://{SECRET}", "openai:model@url is expected"),
        ("NATIVE_MODEL", "openai:selfrag", "openai:model@url is expected"),
        ("SEARCH", "searxng@10.0.0.1:8080", "an address of the form http://"),
        ("SEARCH", f"tavily@http://u:{SECRET}：@h", "an address of the form http://"),
        ("SEARCH", "off@http://h", "off takes no address"),
        ("FALLBACK_MODEL", "small", "provider:model@url is expected"),
        ("EMBEDDER", "openai", "auto or e5 or static or worker or openai:model@url is expected"),
        ("IMAGE_MAKER", "openai", "off or openai:model@url is expected"),
        ("CAPTIONER", "openai", "off or provider:model@url is expected"),
    ],
)
def test_a_value_of_another_form_is_told_in_words(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    """So are those of earlier versions."""
    monkeypatch.setenv(f"SELFCRAG_{name}", value)
    message = refusal()

    assert message.startswith(f"SELFCRAG_{name}: ")
    assert expected in message
    assert "^" not in message


def test_a_setting_of_an_earlier_version_stops_the_start(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left out, another address would be asked."""
    (bare / ".env").write_text("SELFCRAG_SEARXNG_URL=http://intranet\n", encoding="utf-8")
    monkeypatch.setenv("SELFCRAG_OPENAI_BASE_URL", f"http://u:{SECRET}@127.0.0.1:1/v1")
    monkeypatch.setenv("SELFCRAG_EMBEDDER_MODEL", "")
    openai, searxng = refusal(StateSettings).split("; ")
    assert openai.startswith(
        "SELFCRAG_OPENAI_BASE_URL is gone: SELFCRAG_CHAT_MODEL holds its value"
    )
    assert searxng.startswith("SELFCRAG_SEARXNG_URL is gone: SELFCRAG_SEARCH holds its value")


@pytest.mark.parametrize("prefix", ["", "SELFCRAG_"])
def test_a_provider_is_chosen_with_its_key(monkeypatch: pytest.MonkeyPatch, prefix: str) -> None:
    monkeypatch.setenv("SELFCRAG_GENERATOR", "chat")
    monkeypatch.setenv("SELFCRAG_CHAT_MODEL", "openai:m")
    monkeypatch.setenv("SELFCRAG_SEARCH", "tavily")
    monkeypatch.setenv("SELFCRAG_CHAT_API_KEY" if prefix else "OPENAI_API_KEY", SECRET)
    monkeypatch.setenv(f"{prefix}TAVILY_API_KEY", SECRET)
    settings = load_settings(Settings)

    assert settings.chat_key.get_secret_value() == SECRET
    assert settings.tavily_api_key.get_secret_value() == SECRET
    assert SECRET not in repr(settings)


def test_the_evaluator_s_thresholds_are_not_for_a_language_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SELFCRAG_CHAT_MODEL", "acme:m")
    monkeypatch.setenv("SELFCRAG_GRADER", "llm_direct")
    monkeypatch.setenv("SELFCRAG_THRESHOLDS", "popqa")
    with pytest.raises(StartFailed, match="thresholds popqa are the evaluator's"):
        load_settings(Settings)


@pytest.mark.parametrize(("model", "key"), [("openai:m", "openai's"), ("anthropic:m", "")])
def test_the_key_of_openai_is_for_no_other_provider(
    monkeypatch: pytest.MonkeyPatch, model: str, key: str
) -> None:
    monkeypatch.setenv("SELFCRAG_CHAT_MODEL", model)
    monkeypatch.setenv("OPENAI_API_KEY", "openai's")
    assert load_settings(Settings).chat_key.get_secret_value() == key

    monkeypatch.setenv("SELFCRAG_CHAT_API_KEY", "own")
    assert load_settings(Settings).chat_key.get_secret_value() == "own"


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFCRAG_PORT", "")
    monkeypatch.setenv("SELFCRAG_SEARCH", "")
    assert load_settings(Settings) == Settings(_env_file=None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SELFCRAG_PORT", "eighty"),
        ("SELFCRAG_PORT", "70000"),
        ("SELFCRAG_LOG_LEVEL", "loudest"),
        ("SELFCRAG_SEARCH", "altavista"),
        ("SELFCRAG_THRESHOLDS", "guessed"),
        ("SELFCRAG_UPLOAD_MAX_BYTES", "20000001"),
    ],
)
def test_a_bad_value_is_named_without_being_printed(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("SELFCRAG_CHAT_API_KEY", SECRET)
    monkeypatch.setenv(name, value)
    message = refusal()

    assert message.startswith(f"{name}: ")
    if not value.isdecimal():
        assert value not in message


def test_every_bad_value_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFCRAG_PORT", "x")
    monkeypatch.setenv("SELFCRAG_MAX_RUNS", "y")
    with pytest.raises(StartFailed, match=r"SELFCRAG_PORT: .*; SELFCRAG_MAX_RUNS: "):
        load_settings(Settings)


def test_lists_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFCRAG_PREFERRED_DOMAINS", "example.org, example.net,,")
    assert load_settings(Settings).preferred_domains == ("example.org", "example.net")


def test_the_env_file_is_read_and_the_environment_comes_first(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "SELFCRAG_PORT=8123\nSELFCRAG_MAX_RUNS=7\nOPENAI_API_KEY=from-file\nOTHERS=9\n"
    (bare / ".env").write_text(text, encoding="utf-8")
    monkeypatch.setenv("SELFCRAG_PORT", "8124")
    settings = load_settings(Settings)

    assert (settings.port, settings.max_runs) == (8124, 7)
    assert settings.openai_api_key.get_secret_value() == "from-file"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("SELFCRAG_EVALUATOR_WEIGHTS", "/nowhere", "SELFCRAG_EVALUATOR_WEIGHTS"),
        ("SELFCRAG_EVALUATOR_PORT", "abc", "SELFCRAG_EVALUATOR_PORT"),
        ("SELFCRAG_WORKER_URL", "http://127.0.0.1:9,http://127.0.0.1:9", "127.0.0.1:9"),
        ("SELFCRAG_WORKER_URL", "no-address", "no-address"),
        ("SELFCRAG_WORKER_URL", "http://gpu:port", "http://gpu:port is not an address"),
        ("SELFCRAG_SEARCH", "fixture@/nowhere.json", "/nowhere.json"),
    ],
)
async def test_parts_that_cannot_start_are_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, told: str
) -> None:
    monkeypatch.setenv("SELFCRAG_SEARCH", "off")
    monkeypatch.setenv(name, value)
    with pytest.raises(StartFailed) as failed:
        async with open_services(load_settings(Settings)):
            pass

    assert told in str(failed.value)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("proxy", "wanted"),
    [("socks5://127.0.0.1:9", "socksio"), ("socks://127.0.0.1:9", "Unknown scheme")],
)
@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (services._engine, {"search": "wikipedia"}),
        (services._engine, {"search": "tavily", "tavily_api_key": SECRET}),
        (services._engine, {"search": "searxng@http://127.0.0.1:9"}),
        (services._chat, {"critic": "llm", "chat_model": "openai:m", "chat_api_key": SECRET}),
    ],
)
def test_a_proxy_that_cannot_be_used_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    proxy: str,
    wanted: str,
    make: Callable[[Settings], object],
    parts: dict[str, Any],
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(StartFailed) as failed:
        make(Settings(**parts))

    assert "ALL_PROXY" in str(failed.value)
    assert wanted in str(failed.value)
    assert "\n" not in str(failed.value)
    # Where nothing goes through it, it is nobody's concern.
    assert make(Settings(search="off")) is None
