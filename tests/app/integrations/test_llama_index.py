"""The LlamaIndex retriever in llama-index-core, in an environment of its own."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.app.serving import Serving, wait_until
from tests.handbook.blocks import BLOCKS, Block
from tests.handbook.test_examples import here
from tests.umbra import CHINESE, ENGLISH

pytestmark = pytest.mark.slow
FILE = Path(__file__).parents[3] / "app/integrations/llama_index.py"
SCRIPT = """
import asyncio, json, sys
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.llms import MockLLM
from app.integrations.llama_index import SelfCragNodeRetriever

url, *questions = sys.argv[1:]
retriever = SelfCragNodeRetriever(url, options={"top_strips": 2})
engine = RetrieverQueryEngine(
    retriever, get_response_synthesizer(llm=MockLLM(), response_mode="compact")
)
told = []
for question in questions:
    nodes = asyncio.run(retriever.aretrieve(question))
    response = engine.query(question)
    told.append({
        "texts": [node.text for node in nodes],
        "scores": [node.score for node in nodes],
        "metadata": nodes[0].metadata,
        "cited": [source.node.node_id for source in response.source_nodes],
        "ids": [node.node_id for node in nodes],
        "asked": str(response),
    })
try:
    SelfCragNodeRetriever(url, collection="gone").retrieve("Why?")
except Exception as error:
    told.append(f"{type(error).__name__}: {error}")
print(json.dumps(told))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A project that holds the one file, where examples look for it, and nothing else of ours."""
    folder = tmp_path / "app/integrations"
    folder.mkdir(parents=True)
    for package in (tmp_path / "app", folder):
        (package / "__init__.py").touch()
    (folder / FILE.name).write_bytes(FILE.read_bytes())
    return tmp_path


def test_a_query_engine_answers_from_graded_nodes(
    service: Serving, llama_index_python: Path, place: Path
) -> None:
    done = subprocess.run(
        [llama_index_python, "-c", SCRIPT, service.url, ENGLISH, CHINESE],
        cwd=place, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *answered, refused = json.loads(done.stdout)

    for told, question, words in zip(answered, (ENGLISH, CHINESE), ("87", "八十七"), strict=True):
        found = service.client.post(
            "/search", json={"question": question, "options": {"top_strips": 2}}
        )
        assert told["texts"] == [it["text"] for it in found.json()["passages"]], "word for word"
        assert words in told["texts"][0]
        assert told["scores"] == sorted(told["scores"], reverse=True)
        assert told["metadata"]["source"].endswith("tower.md")
        assert told["metadata"]["action"] == "correct"
        assert told["cited"] == told["ids"], "the sources of the answer"
        assert words in told["asked"], "the mock model repeats its prompt"
        assert "strip_id" not in told["asked"]
    assert refused.startswith("HTTPStatusError")
    assert "there are: default" in refused


STOPS = """
import asyncio, sys
from app.integrations.llama_index import SelfCragNodeRetriever

async def stop():
    await asyncio.wait_for(SelfCragNodeRetriever(sys.argv[1]).aretrieve("Why?"), 3)

try:
    asyncio.run(stop())
except TimeoutError:
    print("stopped")
"""


def test_a_call_that_is_cancelled_ends_its_run(
    slow: Serving, llama_index_python: Path, place: Path
) -> None:
    done = subprocess.run(
        [llama_index_python, "-c", STOPS, slow.url],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "stopped\n", done.stderr
    wait_until(lambda: not slow.runs_under_way(), 1.0)
    assert slow.app.state.services.retriever.waiting.left_s


EXAMPLES = [block for block in BLOCKS if "llama-index-core" in block.needs]


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.place)
def test_examples_of_the_handbook_run(
    service: Serving, llama_index_python: Path, place: Path, block: Block
) -> None:
    text = here(block.text, service, "")
    question = CHINESE if "/zh/" in block.page else ENGLISH
    text = re.sub(r'engine\.query\(".+"\)', f'engine.query("{question}")', text)
    done = subprocess.run(
        [llama_index_python, "-c", text], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "tower.md" in done.stdout
