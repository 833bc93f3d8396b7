"""Parser processes: documents are read apart from the service, within bounds of time and memory.

A parser led astray by a document takes its process along and nothing else.
"""

import asyncio
import os
import resource
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from app.ingest.chunker import Chunking
from app.ingest.loaders.document import DocumentRefused
from graphs.options import DEFAULT_COLLECTION

Row = dict[str, Any]
Serve = Callable[[Connection, Path], None]

MEMORY_BYTES = 2_000_000_000
CPU_S, CPU_S_PER_MB = 30, 5
"""CPU time for the parsing of a document, and again for each batch of its rows; a signal ends it.
Slow PDFs take half of it. What takes longer for its size was made to."""
WAIT_S = 900.0
"""Longest wait for a process that may compute no longer than that."""
MAX_DOCUMENTS = 1000
"""Of one process, which is then replaced: what libraries leak goes with it."""
NICENESS = 5


@dataclass(frozen=True, slots=True)
class ParseTask:
    """A document to read; `embed`: with the vectors of the shipped table.

    `loader` is the class path of one of the user's choice, empty for the suffix's own. Images that
    it refers to are read below the folder `root`, none where that is empty.
    """

    file: str
    source: str
    path: str
    owner: str
    embed: bool
    chunking: Chunking
    collection: str = DEFAULT_COLLECTION
    loader: str = ""
    root: str = ""


@dataclass(frozen=True, slots=True)
class ImageTask:
    """An image to read."""

    content: bytes


Task = ParseTask | ImageTask


class ParserProcess:
    """One process, started at once; `rows` blocks, `close` may be called from another thread."""

    def __init__(self, cache: Path, serve: Serve | None = None) -> None:
        self.documents = 0
        self._closing = threading.Lock()
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        target = serve or serve_rows
        self.process = context.Process(target=target, args=(theirs, cache), daemon=True)
        # Ctrl-C is for the service alone; the process inherits the mask.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        self.process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        theirs.close()

    @property
    def is_spent(self) -> bool:
        return self.documents >= MAX_DOCUMENTS or not self.process.is_alive()

    def rows(self, task: Task) -> list[Any]:
        """The rows of a document, or the image.

        Raises DocumentRefused, also where reading ends the process.
        """
        self.documents += 1
        rows: list[Any] = []
        try:
            self._connection.send(task)
            while True:
                if not self._connection.poll(WAIT_S):
                    self.close()
                    raise DocumentRefused(f"takes longer than {WAIT_S:g} s to be read; split it")
                message = self._connection.recv()
                if message is None:
                    return rows
                if isinstance(message, Exception):
                    raise message
                rows += message
        except (EOFError, OSError):
            self.close()
            reason = "the parser crashed on this file"
            if self.process.exitcode == -signal.SIGXCPU:
                reason = f"takes more than {cpu_s(task)} s of computing to be read; split it"
            raise DocumentRefused(reason) from None
        except MemoryError:
            self.close()  # its memory may stay in pieces
            reason = f"needs more than {MEMORY_BYTES / 1e9:.0f} GB of memory to be read; split it"
            raise DocumentRefused(reason) from None

    def close(self) -> None:
        with self._closing:
            self.process.kill()
            self.process.join()


class Sandbox:
    """At most `max_processes`, started when they are first needed; close them with `aclose`."""

    def __init__(self, cache: Path, max_processes: int, serve: Serve | None = None) -> None:
        self._cache, self._serve = cache, serve
        self._free = asyncio.Semaphore(max_processes)
        # Of its own: a document takes a thread for as long as it is read.
        self._threads = ThreadPoolExecutor(max_processes, "parser")
        self._idle: list[ParserProcess] = []

    async def rows(self, task: Task) -> list[Any]:
        """As `ParserProcess.rows`; ends the process of whoever stops waiting."""
        async with self._free:
            parser = self._idle.pop() if self._idle else await self._started()
            running = asyncio.get_running_loop()
            try:
                return await running.run_in_executor(self._threads, parser.rows, task)
            except asyncio.CancelledError:
                parser.close()
                raise
            finally:
                if parser.is_spent:
                    parser.close()
                else:
                    self._idle.append(parser)

    async def _started(self) -> ParserProcess:
        """A new process; of whoever stops waiting for it, it is ended."""
        running = asyncio.get_running_loop()
        starting = running.run_in_executor(self._threads, ParserProcess, self._cache, self._serve)
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(lambda started: started.result().close())
            raise

    async def aclose(self) -> None:
        for parser in self._idle:
            parser.close()
        self._threads.shutdown(wait=False)


def serve_rows(connection: Connection, cache: Path) -> None:
    """In the process: for each task its rows, a batch at a time, and None behind the last."""
    limit_process()
    # Numbers of one thread each: those of two processes would wait for each other's cores.
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    from app.ingest import rows  # noqa: PLC0415 -- loads what the line above is for
    from app.retrieval.embedder import StaticEmbedder  # noqa: PLC0415
    from app.retrieval.tokenizer import Segmenter  # noqa: PLC0415

    segmenter = Segmenter(cache)
    embedder = StaticEmbedder(segmenter)

    def parse(task: ParseTask) -> Iterator[list[Row]]:
        bare = bare_rows(task)
        for at in range(0, len(bare), rows.BATCH_ROWS):
            batch = rows.with_words(bare[at : at + rows.BATCH_ROWS], segmenter)
            yield rows.with_vectors(batch, embedder) if task.embed else batch

    answer_tasks(connection, parse)


def bare_rows(task: ParseTask) -> list[Row]:
    """The rows of a document, without words and vectors. Raises DocumentRefused."""
    from app.ingest.rows import file_rows  # noqa: PLC0415 -- loads numbers

    return file_rows(
        Path(task.file),
        task.source,
        task.path,
        task.owner,
        task.chunking,
        task.collection,
        task.loader,
        task.root,
    )


def serve_images(connection: Connection, _: Path) -> None:
    """In a process for images: each as plain pixels."""
    limit_process()
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    from app.ingest.loaders.images import read_image  # noqa: PLC0415 -- loads numbers and codecs

    answer_tasks(connection, lambda task: iter([[read_image(task.content)]]))


def answer_tasks(connection: Connection, parse: Callable[[Any], Iterator[list[Any]]]) -> None:
    """Until the other end is closed."""
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        _allow_cpu(cpu_s(task))
        try:
            for batch in parse(task):
                connection.send(batch)
                _allow_cpu(cpu_s(task))
            connection.send(None)
        except DocumentRefused as refusal:
            connection.send(refusal)
        except MemoryError:
            connection.send(MemoryError())
        except Exception:  # noqa: BLE001 - a fault of ours is raised in the service
            connection.send(RuntimeError(f"a parser process failed:\n{traceback.format_exc()}"))


def cpu_s(task: Task) -> int:
    """Seconds for a document of its size."""
    if isinstance(task, ImageTask):
        return CPU_S
    try:
        size = os.path.getsize(task.file)
    except OSError:
        size = 0  # it will be refused
    return CPU_S + round(CPU_S_PER_MB * size / 1e6)


def limit_process() -> None:
    """Limits memory and priority, silences what parsers print, and ends with the parent."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    os.nice(NICENESS)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if (parent := parent_process()) is not None:
        parent.join()
    os._exit(1)


def _allow_cpu(seconds: int) -> None:
    """So much CPU time from now on; the time of the clock says little on a busy machine."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))
