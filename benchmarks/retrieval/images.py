"""Images before generating: what is answered from storage, what is not, and the time that saves.

`python -m benchmarks.retrieval.images` draws 200 pictures, brings them in beside the
handbook, asks for each in words and by copies, and writes images.json and images.md.
"""

import asyncio
import random
import statistics
import tempfile
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from app.composition.services import open_services
from app.ingest.pipeline import ingest
from app.settings import Settings
from benchmarks.report import FOLDER, filled, write
from graphs.state import Context, Question
from graphs.types import Image as MadeImage
from graphs.types import Language, Usage
from graphs.workflows.illustrate import build_illustrate

MODEL_S = 2.0
"""What the stand-in for a model takes; those that make images take longer."""
ABSENT = (
    *(("the ice rink", "溜冰场"), ("a violin", "小提琴"), ("the moon rocket", "登月火箭")),
    *(("a coral reef", "珊瑚礁"), ("the pump station", "泵站"), ("a wooden valve", "木阀门")),
    *(("the airport", "机场"), ("a snow leopard", "雪豹"), ("the steel bridge", "钢桥")),
    ("a bicycle", "自行车"),
)  # fmt: skip
LANGUAGES: tuple[Language, ...] = ("en", "zh")
SUBJECTS: dict[Language, str] = {
    "en": "the cooling pump; the brass valve; the harbour crane; the lighthouse lamp; "
    "the red tower; the bread oven; the fog bell; the rope bridge; the water wheel; "
    "the salt warehouse",
    "zh": "冷却泵; 黄铜阀门; 港口起重机; 灯塔的灯; 红塔; 面包炉; 雾钟; 绳桥; 水车; 盐仓",
}
VIEWS: dict[Language, str] = {
    "en": "cut open; seen from above; before the repair; at night; in winter; with its keeper; "
    "in a photograph of 1911; as an exploded view; on the floor plan; under construction",
    "zh": "剖开的样子; 俯视图; 修理之前; 夜景; 冬天的样子; 和看守人; "
    "1911年的照片; 分解图; 平面图; 建造中",
}
ASKED: dict[Language, tuple[str, ...]] = {
    "en": ("Show me {}", "What does {} look like?", "Is there a picture of {}?"),
    "zh": ("给我看{}", "{}是什么样子？", "有没有{}的图片？"),
}


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
    blank = " " if language == "en" else ""
    subjects, views = (each[language].split("; ") for each in (SUBJECTS, VIEWS))
    return [f"{subject}{blank}{view}" for subject in subjects for view in views]


def asks() -> Iterator[tuple[str, str, Question, str]]:
    """Direction, kind, question and the caption that is meant; "" where none is."""
    dice = random.Random(7)
    for at, language in enumerate(LANGUAGES):
        stored = [("stored", caption, caption) for caption in captions(language)]
        absent = [("absent", it[at], "") for it in ABSENT for _ in range(3)]
        for kind, words, caption in (*stored, *absent):
            text = dice.choice(ASKED[language]).format(words)
            yield "text", f"{language} {kind}", Question(question=text), caption
    shown = Question(question="What is this?")
    every = [*captions("en"), *captions("zh")]
    for n in range(0, 200, 5):
        for kind, url in copies(drawn(n)).items():
            yield "image", kind, {**shown, "image": url}, every[n]
    for n in range(40):
        yield "image", "another picture", {**shown, "image": data_url(drawn(1000 + n))}, ""


async def measured() -> dict[str, Any]:
    stand_in = StandIn()
    counts: dict[str, dict[str, Counter[str]]] = {"text": {}, "image": {}}
    took_s: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as state, tempfile.TemporaryDirectory() as shelf:
        for n, caption in enumerate([*captions("en"), *captions("zh")]):
            keep(Path(shelf, f"{n:03}.png"), drawn(n), caption)
        settings = Settings(_env_file=None, data_dir=Path(state), search="off")
        async with open_services(settings) as opened:
            retriever: Any = opened.retriever
            began = time.perf_counter()
            await ingest([Path(shelf), Path("docs")], retriever.index, retriever.segmenter)
            ingest_s = round(time.perf_counter() - began, 1)
            services = replace(opened, image_maker=stand_in, captioner=stand_in)
            for direction, kind, question, caption in asks():
                began = time.perf_counter()
                told = await build_illustrate(services).ainvoke(question, context=Context())
                is_stored = told["generator"] == "stored"
                took_s[is_stored].append(time.perf_counter() - began)
                is_right = is_stored and told["documents"][0].text == caption
                counts[direction].setdefault(kind, Counter()).update(
                    asked=1, from_storage=is_stored, right=is_right
                )
    every = [*took_s[True], *took_s[False]]
    return {
        "model_s": MODEL_S,
        **counts,
        "ingest_s": ingest_s,
        "stored_p50_ms": round(1000 * statistics.median(took_s[True]), 1),
        "made_p50_ms": round(1000 * statistics.median(took_s[False]), 1),
        "share_from_storage": round(len(took_s[True]) / len(every), 3),
        "time_saved": round(1 - sum(every) / (MODEL_S * len(every)), 3),
    }


report = partial(filled, "retrieval/images.md.j2")


if __name__ == "__main__":
    write(FOLDER / "images.json", asyncio.run(measured()), report)
