"""Examples in JavaScript run in node, with the clients that `tests/node` installs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.serving import Serving
from tests.handbook.blocks import Block, runnable
from tests.handbook.test_examples import here

pytestmark = pytest.mark.node
CLIENTS = Path(__file__).parents[1] / "node"
NODE = Path(sys.executable).with_name("node")


@pytest.mark.parametrize("block", runnable("js"), ids=lambda block: block.place)
def test_javascript_runs(block: Block, service: Serving) -> None:
    done = subprocess.run(
        [NODE, "--input-type=module"],
        input=here(block.text, service, ""),
        cwd=CLIENTS,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
