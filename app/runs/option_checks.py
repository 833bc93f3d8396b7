"""What a run may choose, checked against what this service can do."""

from app.errors import InvalidRequest
from graphs.options import Preset
from graphs.ports import Services
from graphs.state import Context


def chosen(options: Context, preset: Preset, services: Services) -> Context:
    """The run's options, with the service's preset where they name none.

    Raises InvalidRequest for what was chosen and cannot be done here. What a preset would choose
    is left out or stood in for instead.
    """
    check_thresholds(options, services)
    for field, detail in _wanting(options, services).items():
        raise InvalidRequest(f"#/options/{field}", detail)
    return options.with_default_preset(preset)


def check_thresholds(context: Context, services: Services) -> None:
    """A lower above the upper would leave no band; one left out is the evaluator's own."""
    bounds = context.thresholds(services.evaluator.thresholds)
    if bounds.lower > bounds.upper:
        field = "lower" if context.lower is not None else "upper"
        raise InvalidRequest(
            f"#/options/{field}", f"lower ({bounds.lower}) lies above upper ({bounds.upper})"
        )


def _wanting(options: Context, services: Services) -> dict[str, str]:
    """What each option that cannot be served lacks."""
    lacking = {
        ("rerank", "model"): (not services.reranks, "the evaluator's worker has no such model"),
        ("rerank", "lexical"): (services.lexical is None, "the index keeps no term weights"),
        ("compress", "abstractive"): (services.chat is None, "needs a language model"),
        **{
            ("compress", name): (
                name not in services.compressors,
                "needs SELFCRAG_EVALUATOR_COMPRESSOR",
            )
            for name in ("longllmlingua", "selective_context")
        },
    }
    return {
        field: f"{value}: {why}"
        for (field, value), (is_lacking, why) in lacking.items()
        if is_lacking and options.wants(field, value)
    }
