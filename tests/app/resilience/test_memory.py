"""What is freed between what stays goes back to the system."""

import asyncio
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from app.resilience.memory import give_back_freed_memory
from tests.app.serving import wait_until


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's")
async def test_freed_memory_is_given_back() -> None:
    blocks = [np.ones(8_000) for _ in range(2_000)]  # 128 MB, each too small for pages of its own
    kept = blocks[::64]
    full = resident_mb()
    del blocks
    giving = asyncio.create_task(give_back_freed_memory(0.05))
    try:
        await asyncio.to_thread(wait_until, lambda: resident_mb() < full - 80, 10)
    finally:
        giving.cancel()
    assert len(kept) == 32
