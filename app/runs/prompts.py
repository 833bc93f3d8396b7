"""Prompts of a run: what its steps sent to language models, stored for the run's owner to read.

They hold what the run's trace tells anyway, and around it the texts of the folder `prompts`. Keys
travel in headers, never in messages; known secrets are masked all the same.
"""

import time
import zlib
from collections.abc import Sequence

from langchain_core.runnables import ensure_config
from pydantic import TypeAdapter

from app.observability.model_calls import ModelCall
from app.observability.redaction import redact
from app.schemas.runs import SentMessage, SentPrompt

MAX_PROMPTS = 50
"""Of one run; later ones are not kept."""
MAX_PROMPT_CHARS = 20_000
"""Of one message; the middle of a longer one is left out."""
CUT = "\n[…]\n"

_KEPT = TypeAdapter(list[SentPrompt])


class PromptRecorder:
    """Listens to the calls of language models in one run (`model_calls.listen`)."""

    def __init__(self) -> None:
        self._starts: dict[str, int] = {}
        self._recorded: list[tuple[str, SentPrompt]] = []

    def step_began(self, task_id: str, number: int) -> None:
        """The task of a step, by the number of the event that tells its start."""
        self._starts[task_id] = number

    def hear(self, call: ModelCall) -> None:
        """Within the step that makes the call, whose task its config names."""
        if not call.prompt or len(self._recorded) >= MAX_PROMPTS:
            return
        namespace = str(ensure_config().get("metadata", {}).get("langgraph_checkpoint_ns", ""))
        places = [place.partition(":") for place in namespace.split("|")]
        prompt = SentPrompt(
            path=[name for name, _, _ in places],
            model=call.model,
            took_ms=round((time.time_ns() - call.began_ns) / 1e6, 3),
            input_tokens=call.input_tokens,
            output_tokens=call.output_tokens,
            failed=bool(call.error),
            messages=[SentMessage(role=it.role, text=_bounded(it.text)) for it in call.prompt],
        )
        self._recorded.append((places[-1][2], prompt))

    @property
    def prompts(self) -> list[SentPrompt]:
        """In the order in which their calls ended."""
        return [
            prompt.model_copy(update={"step": self._starts.get(task_id)})
            for task_id, prompt in self._recorded
        ]


def _bounded(text: str) -> str:
    text, half = redact(text), MAX_PROMPT_CHARS // 2
    return text if len(text) <= MAX_PROMPT_CHARS else text[:half] + CUT + text[-half:]


def packed(prompts: Sequence[SentPrompt]) -> bytes | None:
    """Compressed, fast rather than small, as they are kept; None where no model was asked."""
    return zlib.compress(_KEPT.dump_json(list(prompts)), level=1) if prompts else None


def unpacked(data: bytes | None) -> list[SentPrompt]:
    return _KEPT.validate_json(zlib.decompress(data)) if data else []
