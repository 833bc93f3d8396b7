"""Services as processes for benchmarks, and questions that nobody has asked them before."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
START_S = 60.0
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
_number = count(1)


def question() -> str:
    """One that nobody has asked: grades are kept, and what the service knows it must find out."""
    n = next(_number)
    return f"{QUESTIONS[n % len(QUESTIONS)].rstrip('?？')} ({n})?"


def environment(**settings: object) -> dict[str, str]:
    """Of this process's settings and proxies none; `database_url` is SELFCRAG_DATABASE_URL.

    The code is this checkout's, whichever the environment has installed.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SELFCRAG_") and not name.lower().endswith("_proxy")
    }
    own = {f"SELFCRAG_{name}".upper(): str(it) for name, it in settings.items()}
    return inherited | {"PYTHONPATH": str(ROOT)} | own


def script(name: str) -> str:
    """The path of one of the project's commands."""
    return str(Path(sys.executable).with_name(name))


@contextmanager
def started(
    command: Sequence[str],
    url: str,
    env: dict[str, str],
    log: Path | None = None,
    folder: Path | None = None,
    within_s: float = START_S,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process once `url` is ready, in a group of its own, which SIGTERM ends afterwards.

    What it prints goes to `log`, or nowhere. Exits where it does not start in time.
    """
    with (log or Path(os.devnull)).open("wb") as output:
        process = subprocess.Popen(
            command, env=env, cwd=folder, stdout=output, stderr=output, start_new_session=True
        )
        try:
            ends_at = time.monotonic() + within_s
            while not is_ready(url):
                if process.poll() is not None or time.monotonic() > ends_at:
                    told = log.read_text("utf-8")[-2000:] if log else ""
                    sys.exit(f"{' '.join(command)} did not start. {told}")
                time.sleep(0.1)
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def serving(
    folder: Path, port: int, ingest: Sequence[Path] = (), cores: Sequence[int] = (), **settings: str
) -> Iterator[int]:
    """The process id of `selfcrag serve`, once it is ready; its state and log are in `folder`.

    Of the settings these alone; no web search.
    """
    env = environment(**{"data_dir": folder, "search": "off", **settings})
    if cores:
        env["OMP_NUM_THREADS"] = str(len(cores))
    held = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    words = [word for path in ingest for word in ("--ingest", str(path))]
    command = [*held, script("selfcrag"), "serve", "--port", str(port), *words]
    log = folder / f"service-{port}.log"
    with started(command, f"http://127.0.0.1:{port}", env, log, folder) as process:
        yield process.pid


def is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready", timeout=5, trust_env=False).is_success
    except httpx.TransportError:
        return False
