"""Holds answers of the four workflows against those of another version of the service.

python -m benchmarks.house_answers ask URL FILE        ask a running service, write what it answers
python -m benchmarks.house_answers compare OLD NEW     what differs, question by question
python -m benchmarks.house_answers recording FILE      the recorded web search both are started with

Both services are started on a data folder of their own with the same documents and settings:
SELFCRAG_SEARCH=fixture SELFCRAG_SEARCH_FIXTURE=FILE, default parts otherwise. What is measured in
seconds, and ids made anew in each run, are left out; scores are compared to four digits.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import httpx

from benchmarks.first_answer import QUESTIONS as COVERED

WORKFLOWS = ("rag", "crag", "self_rag", "self_crag")
QUESTIONS = (
    *COVERED,
    "What does the upper threshold decide, and where are the thresholds stored?",
    "How many revisions are made at most, and what ends reflection early?",
    "Which search engines can be used, and what happens when the web is down?",
    "What is the default port, and which command starts the worker alone?",
    "什么是知识条，最多保留几条？",
    "默认端口是多少，哪个命令单独启动评估器？",
    "可以使用哪些搜索引擎，网络不可用时会怎样？",
    "最多修改几轮，什么会让反思提前结束？",
    "Why do basalt columns mostly have six sides?",
    "Who built the lighthouse of Norwick?",
    "How long does a sourdough loaf rest before baking?",
    "玄武岩石柱为什么多为六边形？",
    "诺维克灯塔是谁建造的？",
    "酸面包烘烤之前要静置多久？",
    "Is threshold calibration like the calibration of a kitchen scale?",
    "评估器的阈值与医疗分诊中的阈值有什么区别？",
    "Thanks!",
    "谢谢",
    "thresholds",
    "阈值",
)
RECORDING = {
    "*": [
        {
            "url": "https://en.wikipedia.org/wiki/Basalt_columns",
            "title": "Basalt columns",
            "text": "Basalt columns mostly have six sides because a cooling sheet of lava cracks at"
            " the least cost of energy when the cracks meet at angles of 120 degrees.",
            "score": 0.9,
        },
        {
            "url": "https://example.org/norwick",
            "title": "The lighthouse of Norwick",
            "text": "The lighthouse of Norwick was built by Ada Brand in 1851."
            " 诺维克灯塔由艾达·布兰德于一八五一年建造。",
            "score": 0.7,
        },
        {
            "url": "https://zh.wikipedia.org/wiki/玄武岩石柱",
            "title": "玄武岩石柱",
            "text": "玄武岩石柱多为六边形，因为冷却的熔岩以一百二十度角开裂时消耗的能量最少。",
            "score": 0.6,
        },
    ]
}
LEFT_OUT = {"run_id", "thread_id", "timings_ms"}


def ask(url: str) -> dict[str, Any]:
    """The body of every answer by `workflow: question`."""
    answers = {}
    with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
        for workflow in WORKFLOWS:
            for question in QUESTIONS:
                response = client.post("/ask", json={"question": question, "workflow": workflow})
                response.raise_for_status()
                answers[f"{workflow}: {question}"] = response.json()
    return answers


def plain(value: Any) -> Any:
    """The value without what changes from run to run, numbers rounded."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key not in LEFT_OUT}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return round(value, 4) if isinstance(value, float) else value


def compare(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """A line for each answer that differs, with the fields and both texts."""
    lines = []
    for key, body in old.items():
        before, after = plain(body), plain(new[key])
        fields = [name for name in before if before[name] != after.get(name)]
        if fields:
            lines.append(f"{key}\n  differs in {', '.join(fields)}")
        if "answer" in fields:
            lines += [f"  before: {before['answer']}", f"  now:    {after['answer']}"]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("command", choices=("ask", "compare", "recording"))
    parser.add_argument("names", nargs="+")
    chosen = parser.parse_args()
    match chosen.command:
        case "ask":
            url, file = chosen.names
            Path(file).write_text(json.dumps(ask(url), ensure_ascii=False), encoding="utf-8")
        case "recording":
            text = json.dumps(RECORDING, ensure_ascii=False)
            Path(chosen.names[0]).write_text(text, encoding="utf-8")
        case "compare":
            old, new = (json.loads(Path(name).read_text("utf-8")) for name in chosen.names)
            lines = compare(old, new)
            differing = sum(not line.startswith(" ") for line in lines)
            print("\n".join([*lines, f"{len(old) - differing} of {len(old)} answers equal"]))  # noqa: T201


if __name__ == "__main__":
    main()
