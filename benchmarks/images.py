"""Images before generating: what is answered from storage, what is not, and the time that saves.

`python -m benchmarks.images` draws 200 pictures, brings them and the handbook's in, asks for each
in words and by copies, and writes images.json and images.md.
"""

import asyncio
import json
import random
import statistics
import tempfile
import time
from base64 import b64encode
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from app.composition.services import open_services
from app.ingest.pipeline import ingest
from app.settings import Settings
from benchmarks.image_paraphrases import (
    ASKED,
    HALVES,
    REWORDED,
    SUBJECTS,
    VIEWS,
    chosen_and_reported,
    compared,
    joined,
)
from graphs.ports import Services
from graphs.state import Context, Question
from graphs.types import Image as MadeImage
from graphs.types import Language, Usage
from graphs.workflows.illustrate import build_illustrate

HERE = Path(__file__).parent
MODEL_S = 2.0
"""What the stand-in for a model takes; those that make images take longer."""
ABSENT = (
    *(("the ice rink", "溜冰场"), ("a violin", "小提琴"), ("the moon rocket", "登月火箭")),
    *(("a coral reef", "珊瑚礁"), ("the pump station", "泵站"), ("a wooden valve", "木阀门")),
    *(("the airport", "机场"), ("a snow leopard", "雪豹"), ("the steel bridge", "钢桥")),
    ("a bicycle", "自行车"),
)  # fmt: skip
LANGUAGES: tuple[Language, ...] = ("en", "zh")
HANDBOOK = (
    "Show me the shares of the three actions by upper",
    "给我看 strip_floor 取不同值时保留的知识条",
)


class StandIn:
    """`ports.ImageMaker` and `ports.Captioner` that take their time."""

    name = "stand-in"

    async def make(self, _: str) -> MadeImage:
        await asyncio.sleep(MODEL_S)
        return MadeImage("", "data:,", "", self.name, "", "generated", 1, 1)

    async def describe(self, *_: object) -> tuple[str, Usage]:
        await asyncio.sleep(MODEL_S)
        return "A picture.", Usage(llm_calls=1)


def drawn(seed: int) -> Image.Image:
    """Discs, or boxes with lines as in a diagram."""
    dice, picture = random.Random(seed), Image.new("RGB", (640, 400), "white")
    draw = ImageDraw.Draw(picture)
    for _ in range(12):
        x, y, side = dice.randrange(560), dice.randrange(340), dice.randrange(20, 180)
        if seed % 2:
            draw.rectangle((x, y, x + side, y + side // 2), outline="black", width=3)
            draw.line((x, y, dice.randrange(640), dice.randrange(400)), fill="black", width=2)
        else:
            fill = tuple(dice.randrange(256) for _ in range(3))
            draw.ellipse((x, y, x + side, y + side), fill=fill)
    return picture


def data_url(picture: Image.Image, form: str = "PNG", **options: Any) -> str:
    file = BytesIO()
    picture.save(file, form, **options)
    return f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"


def keep(file: Path, picture: Image.Image, caption: str) -> None:
    picture.save(file)
    file.with_name(f"{file.name}.txt").write_text(caption, encoding="utf-8")


def copies(picture: Image.Image) -> dict[str, str]:
    width, height = picture.size
    return {
        "JPEG 50": data_url(picture, "JPEG", quality=50),
        "half": data_url(picture.resize((width // 2, height // 2))),
        "cropped 2 %": data_url(picture.crop((6, 4, width - 6, height - 4))),
        "cropped 8 %": data_url(picture.crop((26, 16, width - 26, height - 16))),
    }


def captions(language: Language) -> list[str]:
    subjects, views = SUBJECTS[language], VIEWS[language]
    return [joined(language, subject, view) for subject in subjects for view in views]


async def asked(services: Services, question: Question) -> tuple[dict[str, Any], float]:
    began = time.perf_counter()
    told = await build_illustrate(services).ainvoke(question, context=Context())
    return told, time.perf_counter() - began


async def measured() -> dict[str, Any]:
    stand_in, dice = StandIn(), random.Random(7)
    results: dict[str, Any] = {"model_s": MODEL_S, "text": {}, "image": {}, "evaluator": {}}
    results["measures"] = {}
    stored_s, made_s = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as state, tempfile.TemporaryDirectory() as shelf:
        expected = {}
        for n, caption in enumerate([*captions("en"), *captions("zh")]):
            keep(Path(shelf, f"{n:03}.png"), drawn(n), caption)
            expected[caption] = n
        settings = Settings(_env_file=None, data_dir=Path(state), search="off")
        async with open_services(settings) as opened:
            retriever: Any = opened.retriever
            began = time.perf_counter()
            await ingest([Path(shelf), Path("docs")], retriever.index, retriever.segmenter)
            results["ingest_s"] = round(time.perf_counter() - began, 1)
            services = replace(opened, image_maker=stand_in, captioner=stand_in)
            for at, language in enumerate(LANGUAGES):
                asks: dict[str, list[tuple[str, str]]] = {
                    "stored": [(it, it) for it in captions(language)],
                    "absent": [(it[at], "") for it in ABSENT for _ in range(3)],
                }
                for kind, wanted in asks.items():
                    outcomes = []
                    for words, caption in wanted:
                        text = dice.choice(ASKED[language]).format(words)
                        told, took_s = await asked(services, Question(question=text))
                        is_stored = told["generator"] == "stored"
                        (stored_s if is_stored else made_s).append(took_s)
                        right = is_stored and told["documents"][0].text == caption
                        outcomes.append((is_stored, right))
                    results["text"][f"{language} {kind}"] = {
                        "asked": len(outcomes),
                        "from_storage": sum(stored for stored, _ in outcomes),
                        "right": sum(right for _, right in outcomes),
                    }
            found = [await asked(services, Question(question=question)) for question in HANDBOOK]
            results["text"]["handbook"] = {
                "asked": len(found),
                "from_storage": sum(told["generator"] == "stored" for told, _ in found),
                "right": sum("tuning" in told["citations"][0].source for told, _ in found
                             if told["citations"]),
            }  # fmt: skip
            numbers = {n: caption for caption, n in expected.items()}
            kinds: dict[str, list[tuple[str, str]]] = {}
            for n in range(0, 200, 5):
                for kind, url in copies(drawn(n)).items():
                    kinds.setdefault(kind, []).append((url, numbers[n]))
            kinds["another picture"] = [(data_url(drawn(1000 + n)), "") for n in range(40)]
            for kind, shown in kinds.items():
                outcomes = []
                for url, caption in shown:
                    shows = Question(question="What is this?", image=url)
                    told, took_s = await asked(services, shows)
                    is_stored = told["generator"] == "stored"
                    (stored_s if is_stored else made_s).append(took_s)
                    outcomes.append((is_stored, is_stored and told["documents"][0].text == caption))
                results["image"][kind] = {
                    "asked": len(outcomes),
                    "from_storage": sum(stored for stored, _ in outcomes),
                    "right": sum(right for _, right in outcomes),
                }
            for language in LANGUAGES:
                halves = [await compared(opened, language, half) for half in HALVES]
                results["measures"][language] = chosen_and_reported(*halves)
                own = captions(language)
                near = [own[(n + 1) % len(own)] for n in range(len(own))]
                pairs = [list(zip(own, texts, strict=True)) for texts in (own, near)]
                same, other = [
                    (await opened.evaluator.score("relevance", those)).values for those in pairs
                ]
                better = np.array(same)[:, None] > np.array(other)[None]
                results["evaluator"][language] = round(float(better.mean()), 2)
    results["stored_p50_ms"] = round(1000 * statistics.median(stored_s), 1)
    results["made_p50_ms"] = round(1000 * statistics.median(made_s), 1)
    share = len(stored_s) / (len(stored_s) + len(made_s))
    results["share_from_storage"] = round(share, 3)
    every = [*stored_s, *made_s]
    always_s = MODEL_S * len(every)
    results["time_saved"] = round(1 - sum(every) / always_s, 3)
    return results


def measured_rows(measures: dict[str, Any]) -> list[str]:
    rows = []
    for language, by_name in measures.items():
        for name, one in by_name.items():
            if one is None:
                rows.append(f"| {language} | {name} | none fits | | | |")
                continue
            told = one["reported"]
            right = sum(told.get(f"{kind} right", 0) for kind in REWORDED)
            asked = sum(told[f"{kind} asked"] for kind in REWORDED)
            misses = f"{told.get('near miss from storage', 0)} of {told['near miss asked']}"
            set_to = f"{one['parameter']:g} | {one['threshold']:g}"
            rows.append(f"| {language} | {name} | {set_to} | {right} of {asked} | {misses} |")
    return rows


def report(results: dict[str, Any]) -> str:
    rows = [
        f"| {direction} | {kind} | {one['asked']} | {one['from_storage']} | {one['right']} |"
        for direction in ("text", "image")
        for kind, one in results[direction].items()
    ]
    return "\n".join(
        [
            "# Images before generating",
            "",
            "Made by `python -m benchmarks.images`: 200 pictures drawn by the script with captions"
            " in English and Chinese, and those of the handbook, with the parts that need no model."
            f" A stand-in that takes {results['model_s']:g} s is the model below the threshold.",
            "",
            "| asked by | what | asked | answered from storage | rightly |",
            "|---|---|---|---|---|",
            *rows,
            "",
            f"Answered without generating: {results['share_from_storage']:.1%} of all questions"
            f" above. Median {results['stored_p50_ms']:g} ms from storage,"
            f" {results['made_p50_ms']:g} ms with the stand-in; {results['time_saved']:.1%} of the"
            " time is saved against asking the stand-in every time. Both shares are those of this"
            " mix of questions.",
            "",
            "## In other words, and near misses",
            "",
            "The questions above use the words of the captions. Those below name subject,"
            " view or both in other words (150 in each half, written in"
            " `benchmarks/image_paraphrases.py`), or ask for near misses of what is"
            " stored, such as the railway crane, or the crane in summer (100 in each"
            " half). Parameter and threshold of each measure are those with most right"
            " answers on one half of subjects and views, where all questions in a"
            " caption's own words have to be answered, and no more near misses may pass"
            " than pass the measure of the first row. The other half is reported.",
            "",
            "| language | measure | parameter | threshold | reworded, right | near misses taken |",
            "|---|---|---|---|---|---|",
            *measured_rows(results["measures"]),
            "",
            "Vectors of words that can stand for each other, as *winter* and *summer*,"
            " are as near as those of words that mean the same, so that no measure tells"
            " the two kinds apart, and the share of words stays. What is asked for in"
            " other words goes to the model. The same holds for questions in another"
            " language than the caption's, which share no word with the caption; the"
            " vectors of the two languages have nothing in common.",
            "",
            "Why the shipped evaluator does not grade captions: the share of pairs in which it"
            " grades a caption above its neighbour, asked for by the caption's own words (0.5 is"
            f" chance): English {results['evaluator']['en']:.2f}, Chinese"
            f" {results['evaluator']['zh']:.2f}. It was trained on passages that answer questions.",
            "",
        ]
    )


if __name__ == "__main__":
    figures = asyncio.run(measured())
    (HERE / "images.json").write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    (HERE / "images.md").write_text(report(figures), encoding="utf-8")
