"""Counts the product's files and functions that one streamed self_crag request enters.

    python tests/structure_request.py [CHECKOUT]    of this checkout, or of another one

The service runs in this process with its default parts, on a page of the checkout's handbook in a
scratch data folder, with the web off. A profile function notes every function entered between the
request and the end of its stream, in all threads; what was loaded or opened before does not count.
Of three such requests the functions that each one entered count: the others hang on timing.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGES = ("app", "graphs", "evaluator", "prompts")
REQUESTS = 3
PAGE = "docs/en/how-to/thresholds.md"
QUESTION = "What does the upper threshold decide?"


class Tracer:
    """Notes (file, function) of every call into the checkout's packages while it `counts`."""

    def __init__(self, root: Path) -> None:
        self._roots = tuple(f"{root / package}{os.sep}" for package in PACKAGES)
        self.entered: set[tuple[str, str]] = set()
        self.requests: list[set[tuple[str, str]]] = []
        self.counts = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if self.counts and event == "call":
            code = frame.f_code
            if code.co_filename.startswith(self._roots):
                self.entered.add((code.co_filename, code.co_qualname))


async def traced(tracer: Tracer) -> None:
    # Of the checkout that was named, which need not be this one.
    import httpx  # noqa: PLC0415

    from app.main import create_app  # noqa: PLC0415
    from app.settings import Settings  # noqa: PLC0415

    app = create_app(Settings(_env_file=None))
    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        body = {"question": QUESTION, "workflow": "self_crag", "stream": True}
        await client.post("/ask", json=body, timeout=300)  # what is made once is made
        for _ in range(REQUESTS):
            tracer.counts = True
            response = await client.post("/ask", json=body, timeout=300)
            tracer.counts = False
            tracer.requests.append(tracer.entered)
            tracer.entered = set()
            assert "event: answer" in response.text, response.text[-2000:]


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
    sys.path.insert(0, str(root))
    os.chdir(root)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"SELFCRAG_DATA_DIR": folder, "SELFCRAG_SEARCH": "off"}
        command = [sys.executable, "-c", "from app.cli import main; main()", "ingest", PAGE]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(root)})
        tracer = Tracer(root)
        threading.setprofile(tracer)
        sys.setprofile(tracer)
        asyncio.run(traced(tracer))
        sys.setprofile(None)
    entered = set.intersection(*tracer.requests)
    files = sorted({file for file, _ in entered})
    for file in files:
        print(Path(file).relative_to(root))  # noqa: T201
    print(json.dumps({"files of a request": len(files), "functions of a request": len(entered)}))  # noqa: T201


if __name__ == "__main__":
    main()
