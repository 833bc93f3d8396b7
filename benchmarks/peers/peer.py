"""The process of a peer: documents come first, then a question a line; answers go out.

It runs in an environment of its own (requirements.txt), which knows nothing of this project.
"""

import json
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TOP_K = 4
"""As in the tutorials."""


@dataclass
class Task:
    """`documents` are titles and texts; `has_web` changes from question to question."""

    base_url: str
    model: str
    search_url: str
    documents: list[tuple[str, str]]
    has_web: bool = False

    def search(self, query: str) -> list[str]:
        """Texts that the web search finds, in place of Tavily's."""
        if not self.has_web:
            return []
        url = f"{self.search_url}/search?{urllib.parse.urlencode({'q': query})}"
        with urllib.request.urlopen(url) as reply:
            results: list[dict[str, Any]] = json.load(reply)["results"]
        return [f"{result['title']}\n{result['content']}" for result in results]


Answering = Callable[[str], str]


def run(build: Callable[[Task], Answering]) -> None:
    given = json.loads(sys.stdin.readline())
    task = Task(**given)
    answer = build(task)
    _say({"ready": True})
    for line in sys.stdin:
        question, task.has_web = json.loads(line)
        try:
            _say({"answer": answer(question)})
        except Exception as error:  # noqa: BLE001 - the user of this peer would see it raised
            _say({"answer": "", "failed": f"{type(error).__name__}: {error}"[:300]})


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
