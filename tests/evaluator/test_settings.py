from pathlib import Path

import pytest

from evaluator.errors import SettingsError
from evaluator.settings import WEIGHTS, EvaluatorSettings, read_settings


def test_an_empty_variable_means_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("SELFCRAG_EVALUATOR_THREADS=\n", encoding="utf-8")
    for name in ("WEIGHTS", "BACKEND", "PORT"):
        monkeypatch.setenv(f"SELFCRAG_EVALUATOR_{name}", "")
    settings = EvaluatorSettings()
    assert settings.weights == WEIGHTS
    assert (settings.backend, settings.port, settings.threads) == ("onnx", 8001, 0)


@pytest.mark.parametrize("spelt", ["fp16", "float16", "half"])
def test_fp16_is_refused_in_one_line_that_says_why(
    monkeypatch: pytest.MonkeyPatch, spelt: str
) -> None:
    monkeypatch.setenv("SELFCRAG_EVALUATOR_PRECISION", spelt)
    with pytest.raises(SettingsError) as refused:
        EvaluatorSettings()
    assert str(refused.value) == (
        "SELFCRAG_EVALUATOR_PRECISION: fp16 is refused, because T5 overflows in it; "
        "use auto, fp32 or bf16"
    )


def test_every_wrong_variable_is_named_and_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFCRAG_EVALUATOR_PORT", "harbour")
    monkeypatch.setenv("SELFCRAG_EVALUATOR_THREADS", "-1")
    with pytest.raises(SettingsError) as refused:
        EvaluatorSettings()
    told = str(refused.value)
    assert "SELFCRAG_EVALUATOR_PORT: " in told
    assert "; SELFCRAG_EVALUATOR_THREADS: " in told
    assert "harbour" not in told
    assert "\n" not in told


def test_an_unknown_device_is_refused_and_a_known_one_taken() -> None:
    with pytest.raises(SettingsError, match="DEVICE: must be auto, cpu or cuda"):
        EvaluatorSettings(device="gpu")
    assert EvaluatorSettings(device="cuda:1").device == "cuda:1"


@pytest.mark.parametrize("encoding", ["gbk", "utf-16"])
def test_an_env_file_that_is_not_utf_8_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, encoding: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("# 端口\n", encoding=encoding)
    with pytest.raises(SettingsError, match=r"^\.env is not UTF-8: save it as UTF-8$"):
        read_settings()


def test_a_misspelt_or_gone_setting_is_told_and_those_of_the_service_are_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SELFCRAG_EVALUATOR_TREADS", "2")
    monkeypatch.setenv("SELFCRAG_EVALUATOR_MAX_QUEUED_PAIRS", "9")
    monkeypatch.setenv("SELFCRAG_PORT", "8000")
    read_settings()
    assert caplog.messages == [
        "unknown setting SELFCRAG_EVALUATOR_MAX_QUEUED_PAIRS ignored",
        "unknown setting SELFCRAG_EVALUATOR_TREADS ignored;"
        " did you mean SELFCRAG_EVALUATOR_THREADS?",
    ]
