"""Compress the knowledge before it is answered from (RECOMP; document 003, summarisation)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from langchain_core.runnables.utils import gather_with_concurrency
from langgraph.runtime import Runtime

from graphs.compression import (
    best_sentences,
    by_document,
    compression_of,
    in_place_of,
    judged_sentences,
)
from graphs.errors import CompressorFailed, EvaluatorFailed, GeneratorFailed, PortError
from graphs.knowledge import known
from graphs.nodes.generate import knowledge_of
from graphs.ports import Services
from graphs.relevance import relevance_of
from graphs.repack import repacked
from graphs.state import Context, Reflecting, State, asked, tunables
from graphs.summary import summary_of
from graphs.types import Degraded, Strip, Usage

MOST_SUMMARIES_AT_ONCE = 8
