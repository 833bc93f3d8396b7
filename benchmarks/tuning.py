"""Asks the handbook fixed questions once, and keeps the scores that thresholds decide on.

python -m benchmarks.tuning [STATE]    asks, and writes benchmarks/tuning.json
python -m benchmarks.tuning_plots      draws docs/.images/tuning_*.png from it

The web stays off, so that a run tells about the knowledge base alone. STATE is a state folder to
keep between calls; without it the handbook is read into a passing one.
"""

import asyncio
import json
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx

from app.composition.embedder import open_retriever
from app.ingest.pipeline import ingest
from app.main import create_app
from app.settings import Settings

FOUND = Path(__file__).with_name("tuning.json")
QUESTIONS = Path(__file__).with_name("tuning_questions.json")


def told(question: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """What the plots need of an answer; scores are in the order of the answer."""
    return {
        "kind": question["kind"],
        "language": question["language"],
        "action": answer["action"],
        "thresholds": answer["thresholds"],
        "documents": [round(document["score"], 4) for document in answer["documents"]],
        "right": [
            Path(document["source"]).name in question["pages"] for document in answer["documents"]
        ],
        "strips": [round(strip["score"], 4) for strip in answer["strips"]],
    }


async def asked(state: Path) -> list[dict[str, Any]]:
    """A row for each question."""
    retriever = await open_retriever(state)
    await ingest([Path("docs")], retriever.index, retriever.segmenter)
    app = create_app(Settings(_env_file=None, data_dir=state, search="off"))
    transport = httpx.ASGITransport(app)
    rows = []
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        for question in json.loads(QUESTIONS.read_text(encoding="utf-8")):
            # Fixed to Ambiguous, so that strips are cut and scored whatever the grades.
            options = {"web": "never", "ablation": {"only_action": "ambiguous"}}
            body = {"question": question["text"], "workflow": "crag", "options": options}
            response = await client.post("/ask", json=body, timeout=120)
            response.raise_for_status()
            rows.append(told(question, response.json()))
    return rows


def main() -> None:
    kept = sys.argv[1:2]
    with nullcontext(kept[0]) if kept else tempfile.TemporaryDirectory() as state:
        rows = asyncio.run(asked(Path(state)))
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    FOUND.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
