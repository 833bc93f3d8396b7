"""Writes a checkpoint's model card from what training, calibration and measuring left behind."""

import json
from pathlib import Path
from typing import Any

from evaluator.data.synthetic.rules import RULES
from evaluator.inference.scorer import check_folder
from evaluator.schema import LABELS, load_thresholds
from evaluator.settings import WEIGHTS

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


def write_card(folder: Path) -> Path | None:
    """Write README.md beside the weights; thresholds and measurements where they are there.

    None, and nothing written, for a checkpoint that `train` did not make.
    """
    config = check_folder(folder)
    if "made_by" not in config:
        return None
    made_by = config["made_by"]
    is_shipped = folder.resolve() == WEIGHTS.resolve()
    title = "The shipped evaluator" if is_shipped else "An evaluator of one's own"
    parts = [_head(config, title), _data(made_by), _training(made_by), _validation(made_by)]
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


def _head(config: dict[str, Any], title: str) -> str:
    tasks = ", ".join(config["tasks"])
    return f"""# {title}

A small T5 of width {config["d_model"]} ({config["own_layers"]} encoder layers that read each text
for itself, {config["joint_layers"]} that read both, {config["decoder_layers"]} decoder layer;
{config["vocab_size"]} word pieces and Chinese characters) that reads two texts and answers with one
decoder step over the reflection tokens. Tasks: {tasks}. The relevance score is
2·p({LABELS["relevance"][0]}) - 1. English and Chinese, Simplified and Traditional; inputs of at
most {config["max_length"]} tokens, the passage cut to fit. A passage may stand alone or as
`title // passage`. Rows read `[task] question [SEP] [task] passage`; for support, whose answer the
passage must cover, `[task] answer [SEP] [task] passage [SEP] [task] question`.

{_BEGUN[config["made_by"]["options"]["init"]]}

The layers that read both begin as copies of the last ones beside them and are told how well each
token is matched on the other side. The decoder is told of all measures, of both texts' means and of
the first text's phrases (hashed pairs and triples of tokens); the last linear step reads its state
and these, and is fitted anew by regression after training where that is better. The logit of
{LABELS["relevance"][0]} is, in English, a linear weighing of coverage measures (but for the best
words' kinds), of a score fitted to all of them, and of the nearness of the two texts (cosines of
their means, of the question with the passage's best window, of tokens with their best match); in
Chinese it is the coverage score.
{_RELEVANCE[config.get("relevance_taught", False)]}
The coverage measures (weighted exact and soft coverage of the question, in the whole passage and in
its best window of 40 tokens, pairs of neighbouring tokens, similarity of the means and of the best
window's mean; whether unmatched words are of the kind the question asks for) have word vectors of
their own, settled first: their weighted mean learns MiniLM's
similarities of English texts, and in Chinese which passage answers which question.

Matrices are stored as integers with a scale a row: one byte a value, four bits in the tables of
words and phrases. Both backends compute with exactly these values."""


_RELEVANCE = {
    True: "The decoder, taught relevance too, adds to it.",
    False: "The decoder adds nothing to it: on sets left out of training it had nothing to add.",
}

_BEGUN = {
    "minilm": """The layers that read each text for itself are those of MiniLM (all-MiniLM-L6-v2,
Apache-2.0: word pieces, positions and layers), turned into T5's form and fitted to it by least
squares, and stay so: their mean state's cosines follow MiniLM's. MiniLM knows few Chinese
characters; the others stand in the same cloud of vectors by what they stand beside (positive PMI,
SVD), so that these layers say little in Chinese, where coverage and the trained layers decide.""",
    "none": """The encoder begins from random numbers.""",
}


def _data(made_by: dict[str, Any]) -> str:
    rows = []
    for name, digest in made_by["data"].items():
        what, licence = SOURCES.get(name.split(".")[0], ("own data", "as its owner says"))
        rows.append(f"| {name} | {what} | {licence} | `{digest[:12]}` |")
    table = "\n".join(rows)
    kinds = "\n".join(f"| {kind} | {count} |" for kind, count in made_by["kinds"].items())
    return f"""## Data

| file | what | licence | sha256 |
|---|---|---|---|
{table}

Benchmarks and the CMRC development set are never read by training or calibration. Passages are
shown whole, as chunks of three to six sentences, or as strips of one or two. Of relevance, `words`
are BM25 neighbours, `meaning` MiniLM neighbours (English), both without an answer string;
`same passage` are sentences beside the answer; `unanswerable` are questions labelled so;
`elsewhere` are passages of another set or language. Questions of the retrieval task without
evidence are of our own writing (evaluator/data/synthetic/needs).

| rows read | |
|---|---|
{kinds}

## Constructed classes

{RULES.strip()}"""


def _training(made_by: dict[str, Any]) -> str:
    options, training = made_by["options"], made_by["training"]
    arguments = f"--minutes {options['minutes']:g} --rows {options['rows']}"
    arguments += f" --seed {options['seed']} --layers {options['own_layers']}"
    arguments += f" --init {options['init']}" + (" --teacher DIR" if options["teacher"] else "")
    shares = ", ".join(f"{task} {share:g}" for task, share in options["shares"].items())
    teacher = "a cross-encoder's" if options["teacher"] else "MiniLM's cosine and coverage's"
    taught = f"Relevance targets are mixed with {teacher}, share {options['teacher_share']:g}."
    taught = taught if options["teacher_share"] else "Targets are the labels themselves."
    return f"""## Training

`selfcrag-evaluator train --data DIR --out DIR {arguments}`

Embeddings: {options["distil_steps"]} steps in English, a third in Chinese. Coverage measures:
{options["coverage_steps"]} steps, fewer of few rows. T5: {training["steps"]} steps,
{training["rows_seen"]} rows, {training["minutes"]} minutes; best at step {training["best_step"]},
kept. AdamW {options["learning_rate"]:g}, batches of {options["batch_tokens"]} padded tokens,
at most {options["train_length"]} a row. Mixed: {shares};
within a task by the square root of a source's size. {taught} Seed {options["seed"]}."""


def _validation(made_by: dict[str, Any]) -> str:
    percent = made_by["options"]["held_back_percent"]
    rows = [
        f"| {name} | {values['figure']:.3f} | {values['rows']} |"
        for name, values in made_by["validation"].items()
    ]
    table = "\n".join(rows)
    return f"""## Validation

{percent} % of the articles, held back, and wordings held back of our own writing. Relevance: AUC of
answering against hard negatives only (mined by words and meaning among held-back passages, same
article, same passage, unanswerable). Support: AUC of full against no support. Utility: AUC of
grades 4 and 5 against 1 and 2. Retrieval: share of right tokens. Natural and constructed rows
together; benchmarks/evaluator.md tells them apart.

| task and set | figure | rows |
|---|---|---|
{table}"""


def _thresholds(folder: Path) -> str:
    found = load_thresholds(folder)
    names = ("accuracy", "correct_precision", "correct_recall", "incorrect_precision",
             "incorrect_recall", "ambiguous_share", "web_searches", "needless_searches",
             "other_strips_dropped", "questions")  # fmt: skip
    head = "| | " + " | ".join(name.replace("_", " ") for name in names) + " |"
    rows = []
    for language in ("en", "zh"):
        cells = [f"{found.figures.get(f'{language}_{name}', 0):.3g}" for name in names]
        rows.append(f"| {language} | " + " | ".join(cells) + " |")
    table = "\n".join([head, "|---" * (len(names) + 1) + "|", *rows])
    aims = "".join(
        f" {flag} {found.figures[name]:g}" for name, flag in _AIMS.items() if name in found.figures
    )
    given, what = _GIVEN[found.source]
    return f"""## Thresholds

upper {found.upper:.3f}, lower {found.lower:.3f}, strip floor {found.strip_floor:.3f}, by
`selfcrag-evaluator calibrate{given}{aims}`
on {found.questions} {what}.
Accuracy counts Ambiguous as wrong.

{table}"""


_GIVEN = {
    "data": (
        " --data DIR --most N",
        "held-back questions with their ten nearest passages, half of them without any\n"
        "passage that answers",
    ),
    "questions": (" --questions FILE", "labelled questions of a file"),
    "": ("", "questions"),  # thresholds of an older version do not tell
}

_AIMS = {
    "ambiguous_cost": "--ambiguous-cost",
    "wrong_correct_cost": "--wrong-correct-cost",
    "wrong_incorrect_cost": "--wrong-incorrect-cost",
    "least_correct_precision": "--least-precision",
    "least_incorrect_precision": "--least-incorrect-precision",
    "strip_floor_keeps": "--strips-kept",
}
"""The figures of thresholds.json that say what they were asked for, by their flags."""


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

It is small and its trained layers were trained for little time: finer grades, support in Chinese
and the need of retrieval are learnt weakly (see Validation), so measure on your own data before
branching on them. Relevance comes from the layers taken over and the measures, not from the
decoder. In Chinese the evaluator sees characters rather than words, and relevance is its coverage
measures alone. A passage about the right subject that does not answer the question often scores
high. Support and utility grades between the ends, and all of them in Chinese, were learnt from
constructed rows: they follow the rules above, not human judgement. Relevance is not truth."""
