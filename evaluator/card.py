"""Writes a checkpoint's model card from what training, calibration and measuring left behind."""

import json
from pathlib import Path
from typing import Any

from evaluator.schema import LABELS, load_thresholds
from evaluator.scoring import check_folder

MEASURED_FILE = "measured.json"
"""Figures of `measure --keep`, by the measured file's name."""

SOURCES = {
    "en_squadshifts_wiki": ("questions over Wikipedia passages (SQuAD shifts)", "CC BY 4.0"),
    "en_squad2_half": ("SQuAD 2 style questions, about half unanswerable", "CC BY-SA 4.0"),
    "en_ares": ("synthetic questions with relevance labels (ARES)", "Apache-2.0"),
    "en_popqa": ("PopQA questions with their subject's page", "MIT"),
    "en_nq_gold": ("search-engine questions with Wikipedia passages (NQ)", "MIT, text CC BY-SA"),
    "en_covidqa": ("questions over biomedical articles (COVID-QA)", "Apache-2.0"),
    "en_bioasq": ("biomedical questions with snippets (BioASQ)", "CC BY 2.5"),
    "zh_cmrc2018_train": ("Simplified Chinese questions, Wikipedia (CMRC 2018)", "CC BY-SA 4.0"),
    "zh_drcd": ("Traditional Chinese questions, Wikipedia (DRCD)", "CC BY-SA 3.0"),
    "corpus_en_2wiki": ("Wikipedia openings, distractors only", "MIT"),
    "corpus_zh_news": ("Chinese news openings, distractors only", "Apache-2.0"),
}
"""Published sets this project trains on: what they hold and their licence."""


def write_card(folder: Path) -> Path:
    """Write README.md beside the weights; thresholds and measurements where they are there."""
    config = check_folder(folder)
    made_by = config["made_by"]
    parts = [_head(config), _data(made_by), _training(made_by), _validation(made_by)]
    if (folder / "thresholds.json").exists():
        parts.append(_thresholds(folder))
    measured = folder / MEASURED_FILE
    if measured.exists():
        parts.append(_measured(json.loads(measured.read_text(encoding="utf-8"))))
    path = folder / "README.md"
    path.write_text("\n\n".join([*parts, _LIMITS]) + "\n", encoding="utf-8")
    return path


def keep_figures(folder: Path, name: str, figures: dict[str, float]) -> None:
    """Add one file's measurement to the folder's measured.json."""
    path = folder / MEASURED_FILE
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    text = json.dumps({**known, name: figures}, indent=2)
    path.write_text(text + "\n", encoding="utf-8")


def _head(config: dict[str, Any]) -> str:
    tasks = ", ".join(config["tasks"])
    return f"""# The shipped evaluator

A small T5 ({config["encoder_layers"]} encoder layers, {config["decoder_layers"]} decoder layer,
width {config["d_model"]}, {config["vocab_size"]} word pieces and Chinese characters) that reads
`[task] question [SEP] passage` and answers with one decoder step over the reflection tokens.
Its relevance score is 2·p({LABELS["relevance"][0]}) - 1. Trained for: {tasks}. English and
Chinese, Simplified and Traditional; inputs of at most {config["max_length"]} tokens, the passage
cut to fit. A passage may stand alone or as `title // passage`.

Word pieces are those of MiniLM (all-MiniLM-L6-v2, Apache-2.0), embedded by what MiniLM makes of
each alone, reduced by PCA; Chinese characters by co-occurrence (positive PMI, SVD). These
embeddings are then settled: their weighted mean learns MiniLM's similarities of English texts,
and in Chinese which passage answers which question; after that they stay fixed. Each token is
told how well it is matched on the other side, and the logit of {LABELS["relevance"][0]} starts
from coverage measures (weighted exact and soft coverage of the question, in the whole passage and
in its best window of 40 tokens, pairs of neighbouring tokens, similarity of the means and of the
best window's mean; whether unmatched words are of the kind the question asks for); the T5 learns
what they miss."""


def _data(made_by: dict[str, Any]) -> str:
    rows = []
    for name, digest in made_by["data"].items():
        what, licence = SOURCES.get(name.split(".")[0], ("own data", "as its owner says"))
        rows.append(f"| {name} | {what} | {licence} | `{digest[:12]}` |")
    kinds = ", ".join(f"{kind} {count}" for kind, count in made_by["kinds"].items())
    table = "\n".join(rows)
    return f"""## Data

| file | what | licence | sha256 |
|---|---|---|---|
{table}

Benchmarks and the CMRC development set are never read by training or calibration. Passages are
shown whole, as chunks of three to six sentences, or as strips of one or two.
Pairs by kind: {kinds}.
`words` are BM25 neighbours, `meaning` MiniLM neighbours (English), both without an answer string;
`same passage` are sentences beside the answer; `unanswerable` are
questions labelled so; `elsewhere` are passages of another set or language."""


def _training(made_by: dict[str, Any]) -> str:
    options, training = made_by["options"], made_by["training"]
    arguments = f"--minutes {options['minutes']:g} --pairs {options['pairs']}"
    arguments += f" --seed {options['seed']}" + ("" if options["use_minilm"] else " --no-minilm")
    return f"""## Training

`selfcrag-evaluator train --data DIR --out DIR {arguments}`

Embeddings: {options["distil_steps"]} steps in English, a third in Chinese. Coverage measures:
{options["coverage_steps"]} steps. T5: {training["steps"]} steps, {training["pairs_seen"]} of
{training["pairs"]} pairs, {training["minutes"]} minutes on a CPU shared with other work; AdamW
{options["learning_rate"]:g}, batches of {options["batch_tokens"]} padded tokens. Targets of English
encyclopaedic pairs are mixed with a teacher's (MiniLM's cosine and coverage, by logistic
regression; share {options["teacher_share"]:g}). Seed {options["seed"]}."""


def _validation(made_by: dict[str, Any]) -> str:
    percent = made_by["options"]["held_back_percent"]
    rows = [
        f"| {name} | {figures['auc']:.3f} | {figures['pairs']} |"
        for name, figures in made_by["validation"].items()
    ]
    table = "\n".join(rows)
    return f"""## Validation

{percent} % of the articles, held back. AUC of answering against hard negatives only (mined by words
and meaning among held-back passages, same article, same passage, unanswerable).

| set | AUC | pairs |
|---|---|---|
{table}"""


def _thresholds(folder: Path) -> str:
    found = load_thresholds(folder)
    names = ("correct_precision", "correct_recall", "incorrect_precision", "incorrect_recall",
             "ambiguous_share", "accuracy", "questions")  # fmt: skip
    head = "| | " + " | ".join(name.replace("_", " ") for name in names) + " |"
    rows = []
    for language in ("en", "zh"):
        cells = [f"{found.figures.get(f'{language}_{name}', 0):.3g}" for name in names]
        rows.append(f"| {language} | " + " | ".join(cells) + " |")
    table = "\n".join([head, "|---" * (len(names) + 1) + "|", *rows])
    return f"""## Thresholds

upper {found.upper:.3f}, lower {found.lower:.3f}, strip floor {found.strip_floor:.3f}, by
`selfcrag-evaluator calibrate --data DIR` on {found.questions} held-back questions with their ten
nearest passages, half of them without any passage that answers.

{table}"""


def _measured(measured: dict[str, dict[str, float]]) -> str:
    rows = [
        f"| {name} | {f['questions']:.0f} | {f['auc_evaluator']:.3f} | {f['auc_bm25']:.3f} | "
        f"{_or_dash(f, 'auc_minilm')} | {f['first_evaluator']:.3f} | "
        f"{f['first_bm25']:.3f} | {_or_dash(f, 'first_minilm')} |"
        for name, f in measured.items()
    ]
    table = "\n".join(rows)
    return f"""## Sets never trained on

Each question's passage against the four BM25-nearest passages of other records that hold no answer
string (`selfcrag-evaluator measure FILE`). AUC over all pairs, then the share of questions whose
passage stands first.

| set | questions | AUC | BM25 | MiniLM | first | BM25 | MiniLM |
|---|---|---|---|---|---|---|---|
{table}"""


def _or_dash(figures: dict[str, float], name: str) -> str:
    return f"{figures[name]:.3f}" if name in figures else "-"


_LIMITS = """## Limits

It is small and was trained for little time: nearly all of its judgement comes from the coverage
measures; the T5 layers have so far added less than 0.002 AUC to them. It leans on words shared
between question and passage,
knows few paraphrases, and in Chinese sees characters rather than words. A passage about the right
subject that does not answer the question often scores high. It judges relevance, not truth."""
