"""What the searches find as a report in Markdown, made of its figures alone."""

from typing import Any

from benchmarks.report import table

Figures = dict[str, Any]

HEAD = ["", "Recall@5", "Recall@20", "nDCG@10", "95 % of the difference", "p50 ms", "p95 ms"]
CHUNKING = {
    "sentence": "whole sentences, 175 tokens",
    "small_to_big": "small to big, 175 tokens in blocks of 512",
    "sliding_window": "sliding window, 175 tokens, 20 overlap, one neighbour on either side",
}


def report(figures: Figures) -> str:
    """The sections for which there are figures."""
    sets: dict[str, Figures] = figures["sets"]
    parts = [_head(figures, sets), DECISIONS]
    parts += [_searches(name, part) for name, part in sets.items() if "search" in part]
    for section, told in SECTIONS.items():
        found = {name: part[section] for name, part in sets.items() if section in part}
        if found:
            parts += [told, *(_rows(f"### {name}", part) for name, part in found.items())]
    return "\n\n".join(parts) + "\n"


def _head(figures: Figures, sets: dict[str, Figures]) -> str:
    material = "; ".join(
        f"{name}: {part['questions']:,} questions, {part['passages']:,} passages"
        for name, part in sets.items()
    )
    return f"""# Retrieval, measured

    {figures["command"]}

Written by that command from benchmarks/retrieval.json, on {figures["cores"]} CPU cores, with the
table `{figures["embedder"]}`; `--only` measures a section anew. {material}: each question is to
find the passage it was written for among all of the set's passages and, as distractors, Wikipedia
passages (English) or news (Chinese). Searches are asked the same {figures["searched"]:,} of a
set's questions, rerankers 100, the rest 150. Documents count once, at their best chunk's
rank. Differences are those of nDCG@10 to the first named row of comparison, by bootstrap over the
questions. Milliseconds are those of a question, embedding and segmentation included. How the
weights of the hybrid were found, on other sets: [hybrid_weights.md](hybrid_weights.md). HyDE
and rewriting need a language model, and none was at hand: their wiring is tested, their gain is
not measured here."""


DECISIONS = """## What follows from it

- Hybrid search is the default in English: it is ahead of both searches alone, by most at 20
  passages (Recall@20 .984 to .958), by little at the top. In Chinese the dense weight is 0, so
  hybrid is BM25 there and not better; these questions share their passage's words and leave
  BM25 nothing to mend. The Chinese searches are of the table distilled from e5; the sections after
  them were measured with the one before, `static-e76a0d49`.
- 0.3 * BM25 + dense and reciprocal ranks trust the small table too much: both are options, not
  defaults.
- Small to big and sliding windows find as much, a little more in the English hybrid. Most of
  these passages are a chunk each, so this says little of long documents. Sentence chunks stay
  the default.
- The evaluator as reranker orders best in English and takes seconds on two cores; in Chinese,
  where BM25 errs once in a hundred, it does not help. Term weights cost next to nothing. Over 600
  questions a language they gained .011 of nDCG@10 in English (95 %: .004 to .019) and .003 in
  Chinese (.001 to .006), which the fewer questions below do not show.
- all-MiniLM-L6-v2 beside FAISS is ahead of the shipped table in English: a contextual encoder
  of 22 million parameters. Taken as the embedder here (SELFCRAG_EMBEDDER) its hybrid is no worse
  than FAISS with it, words weighing .3 of the dense score: what every embedder but the table is
  given. Its milliseconds were taken on a busy machine."""


def _searches(name: str, part: Figures) -> str:
    parts = [f"## {name}: searches and chunks"]
    parts += [
        _rows(f"### {CHUNKING[method]} ({found['chunks']:,} chunks)", found)
        for method, found in part["search"].items()
    ]
    return "\n\n".join(parts)


def _rows(heading: str, part: Figures) -> str:
    rows = [[name, *_row(row, name == part["base"])] for name, row in part["rows"].items()]
    notes = ""
    if built := part.get("built"):
        notes = "\n\nSeconds to build: " + ", ".join(
            f"{name} {seconds:.1f}" for name, seconds in built.items()
        )
    return f"{heading}\n\n{table(HEAD, rows)}{notes}"


def _row(row: Figures, is_base: bool) -> list[str]:
    low, high = row["ahead"]
    return [
        *(f"{row[measure]:.3f}" for measure in ("recall@5", "recall@20", "ndcg@10")),
        "compared with" if is_base else f"{low:+.3f} … {high:+.3f}",
        f"{row['p50_ms']:.1f}",
        f"{row['p95_ms']:.1f}",
    ]


RERANK = """## Reranking

The hybrid's 50 best chunks, put into another order. `lexical`: term weights stored at ingest, no
model at question time. `evaluator`: the shipped T5's relevance."""

EMBEDDERS = """## Embedders

The shipped table beside all-MiniLM-L6-v2 (22 million parameters, English)."""

E5 = """## e5

The shipped table beside multilingual-e5-small (SELFCRAG_EMBEDDER=e5). `alpha` is the weight of
BM25 beside 1 of the dense score."""

PLAIN = """## Beside a plain LangChain pipeline

RecursiveCharacterTextSplitter (1,000 characters, 200 overlap), BM25Retriever, FAISS and
EnsembleRetriever with equal weights, over the same passages and questions in the same run. In
Chinese BM25Retriever is given jieba's words; left alone it finds next to nothing."""

SECTIONS = {"rerank": RERANK, "embedders": EMBEDDERS, "e5": E5, "plain": PLAIN}
