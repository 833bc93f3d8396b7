"""Times what a new user waits for: install to first answer, and p50 of `POST /ask`.

python -m benchmarks.first_answer                 p50 against a service this starts itself
python -m benchmarks.first_answer --from-clone    clones the repository, runs `make run`, asks

Questions come from the handbook's own subject, in English and Chinese, and are not repeated.
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx

QUESTIONS = (
    "What does the upper threshold decide?",
    "How many strips are kept after refinement?",
    "Which web search is used when nothing is configured?",
    "What happens when the action is Incorrect?",
    "How is a question rewritten for the web search?",
    "What is a knowledge strip?",
    "How do I calibrate the evaluator?",
    "Which events does the stream send?",
    "Where does the service keep its state?",
    "How can I use my own chat endpoint?",
    "上阈值决定什么？",
    "精炼之后保留多少条知识片段？",
    "没有任何配置时使用哪个网络搜索？",
    "动作为 Incorrect 时会发生什么？",
    "问题如何改写成搜索关键词？",
    "什么是知识条带？",
    "怎样校准评估器？",
    "事件流会发送哪些事件？",
    "服务把状态保存在哪里？",
    "怎样使用自己的聊天接口？",
)


@contextmanager
def service(command: list[str], folder: Path, url: str, wait_s: float) -> Iterator[float]:
    """The seconds until the service was ready; it is stopped afterwards."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, start_new_session=True)
    try:
        while time.perf_counter() - started < wait_s:
            if process.poll() is not None:
                sys.exit(f"{' '.join(command)} ended with {process.returncode}")
            if _is_ready(url):
                break
            time.sleep(0.2)
        yield time.perf_counter() - started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def ask(url: str, question: str) -> float:
    """Milliseconds until the whole answer."""
    started = time.perf_counter()
    response = httpx.post(
        f"{url}/ask", json={"question": question, "options": {"web": "never"}}, timeout=60
    )
    response.raise_for_status()
    return (time.perf_counter() - started) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--from-clone", action="store_true")
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    chosen = parser.parse_args()
    here = Path(__file__).resolve().parent.parent
    with tempfile.TemporaryDirectory() as scratch:
        folder, command = here, ["make", "--no-print-directory", "run"]
        if chosen.from_clone:
            folder = Path(scratch) / "clone"
            subprocess.run(["git", "clone", "--quiet", str(here), str(folder)], check=True)
        with service(command, folder, chosen.url, wait_s=900) as ready_s:
            first_ms = ask(chosen.url, "Is it ready to answer questions about thresholds?")
            what = "install to first answer" if chosen.from_clone else "start to first answer"
            print(f"{what}: {ready_s + first_ms / 1000:.1f} s")  # noqa: T201
            took = [ask(chosen.url, question) for question in QUESTIONS]
    p50, most = statistics.median(took), max(took)
    print(f"POST /ask, {len(took)} questions: p50 {p50:.0f} ms, max {most:.0f} ms")  # noqa: T201


if __name__ == "__main__":
    main()
