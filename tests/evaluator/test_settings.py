from pathlib import Path

import pytest
from pydantic import ValidationError

from evaluator.settings import WEIGHTS, EvaluatorSettings


def test_an_empty_variable_means_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("SELFCRAG_EVALUATOR_THREADS=\n", encoding="utf-8")
    for name in ("WEIGHTS", "BACKEND", "PORT", "MAX_BODY_BYTES"):
        monkeypatch.setenv(f"SELFCRAG_EVALUATOR_{name}", "")
    settings = EvaluatorSettings()
    assert settings.weights == WEIGHTS
    assert (settings.backend, settings.port, settings.threads) == ("onnx", 8001, 0)
    assert settings.max_body_bytes == 16_000_000


def test_a_variable_with_a_value_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFCRAG_EVALUATOR_MAX_BODY_BYTES", "20000")
    assert EvaluatorSettings().max_body_bytes == 20_000
    monkeypatch.setenv("SELFCRAG_EVALUATOR_MAX_BODY_BYTES", "1")
    with pytest.raises(ValidationError, match="max_body_bytes"):
        EvaluatorSettings()


def test_a_full_request_fits_the_queue() -> None:
    with pytest.raises(ValidationError, match="max_queued_pairs"):
        EvaluatorSettings(max_pairs=10, max_queued_pairs=9)
