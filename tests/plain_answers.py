"""Two hundred ordinary answers, as language models write them: code, tables, formulas, sources."""

from itertools import islice, product

SOURCES = (
    "https://docs.example.org/guide",
    "https://en.wikipedia.org/wiki/Umbra_(tower)",
    "https://zh.wikipedia.org/wiki/%E7%BA%A2%E5%A1%94",
    "https://api.example.com/v2/items?page=2&size=10",
    "docs/en/settings.md",
)
GUIDE, TOWER, CHINESE, ITEMS, _ = SOURCES

CODE = {
    "python": "def largest(items: list[int]) -> int:\n    return max(items)  # https://python.org",
    "cpp": "#include <vector>\nstd::vector<std::pair<int, int>> pairs;\nif (a<b && c>d) return;",
    "java": 'Map<String, List<Integer>> found = new HashMap<>();\nString s = a < b ? "<b>" : null;',
    "typescript": "const get = async <T>(id: string): Promise<T> =>\n  (await fetch(`https://api.dev/${id}`)).json();",
    "rust": "fn first<'a, T>(items: &'a [T]) -> Option<&'a T> {\n    items.first()\n}",
    "go": "func Keys[K comparable, V any](m map[K]V) []K {\n\treturn maps.Keys(m) // <-ch\n}",
    "bash": "curl -s https://example.net/install.sh | sh\ncat <<EOF > a.txt\n![x](y)\nEOF",
    "sql": "SELECT name FROM users WHERE age <= 30 AND note <> '<none>';",
    "yaml": 'services:\n  web:\n    image: "nginx:1.27"\n    url: http://internal:8080/x',
    "json": '{"url": "https://example.net/a", "html": "<p>text</p>"}',
    "dockerfile": "FROM python:3.11\nRUN pip install --index-url https://pypi.org/simple self-crag",
    "": "make run\n<ctrl-c>",
    "js": "document.querySelector('a').href = 'https://example.net';",
    "html": '<ul>\n  <li class="a">One &amp; two</li>\n</ul>\n<!-- end -->',
    "mermaid": "graph TD\n    A[Start] --> B{Is it < 5?}\n    B -->|yes| C[(Store)]",
}
SENTENCES = (
    "The threshold is 0.59 [1], and 0.3 < x <= 0.9 holds for all of them [2].",
    "Use `List<Integer>` or `Map<K, V>`, not `List<?>` [1].",
    "Set `SELFCRAG_SEARCH=off` in `.env`; then `http://127.0.0.1:8000/health` still answers [3].",
    "**Note:** README.md and setup.py are read first, then docs/en/settings.md [2].",
    "It works with ASP.NET, Node.js and Socket.IO alike (e.g. version 4.8.1, i.e. the last one).",
    f"The guide says so [1]: see {GUIDE} for more.",
    f"See [the guide]({GUIDE}) and [the tower]({TOWER}) [1][2].",
    f"It is described in <{GUIDE}>, in {TOWER}, and at {ITEMS} [1].",
    f"(Source: {GUIDE})",
    "The tower is 87 metres tall [1]; its keeper lights the lamp at dusk [2]!",
    "Is it so? Yes: 5 > 3, 2 < 3, and a -> b; x <- y; 3 <= 4 [1].",
    "Great![1] It costs $5.00 to $7.50, about 20 % less & no more [2].",
    "Let $n$ be even; then $a_n = \\frac{n}{2}$ and $x < y$ for all $0 < x \\leq 1$ [1].",
    "Ask support@example.com or call +1 (555) 010-9999; 10.0.0.0/8 is private [1].",
    "Press Ctrl+C, wait for 3.5/4.0 s, and/or restart with `make run -- --port 8001` [1].",
    "C:\\Users\\me\\notes.txt and ~/.config/app.yaml hold the paths [1].",
    "Its footnotes* and ~~old~~ _new_ names stay, don't they? “Yes,” she said…",
    "Run `curl -s https://a.b.dev/x | sh` and read 'docs/**/*.md', *.md or `src/**/*.a.io` [1].",
    "塔高八十七米[1]，守塔人在黄昏时点灯[2]。请使用 `Vec<T>` 与 `a < b`。",
    f"详见 {CHINESE} 。另见（{GUIDE}）。\n其中 0.5 < x < 0.9。",
    f"来源：{GUIDE}。",
    "将 `thresholds.upper` 设为 0.59；默认值见《手册》第 3.2 节，例如 v1.2.3。",
    "👩‍💻 Developers like it ❤️ — naïve, café, Zürich, Ελλάδα, Привет, نمی‌خواهم.",
)
BLOCKS = (
    "",
    "## Steps\n\n1. Install it.\n2. Run `make run`.\n3. Open the page.",
    "- one [1]\n- two\n  - nested: `x < y`\n* three",
    "| Name | Value |\n|------|------:|\n| `upper` | 0.59 |\n| a < b | `Dict<K>` |",
    "> The keeper rings a bell in fog.\n> She does so `twice`.",
    "$$\nE = mc^2, \\quad a < b\n$$",
    "\\[\n\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}\n\\]",
    "- [x] done\n- [ ] open: read the guide [1]",
    "1. Build it:\n\n   ```bash\n   make <target>\n   ```\n\n2. Done.",
    "1. Build it:\n    ```cpp\n    vector<int> a;\n    ```\n2. Done.",
    "* Call it:\n\n    ```go\n    x := <-ch\n    ```",
    "> ```sh\n> curl https://api.openai.com/v1\n> ```\n\nSet `https://api.openai.com/v1`.",
    "- ```sh\n  curl https://api.openai.com/v1\n  ```\n\nSet `https://api.openai.com/v1`.",
    "Term\n: what it means\n\n---\n\n### Next",
)


def _answers() -> list[str]:
    fences = [f"```{name}\n{code}\n```" for name, code in CODE.items()]
    fences += [f"~~~{name}\n{code}\n~~~" for name, code in CODE.items()][:4]
    alone = [*SENTENCES, *filter(None, BLOCKS), *fences]
    mixed = (
        "\n\n".join(filter(None, (first, block, fence, last)))
        for n, (first, block) in enumerate(product(SENTENCES, BLOCKS))
        for fence, last in [(fences[n % len(fences)], SENTENCES[(n * 7 + 3) % len(SENTENCES)])]
    )
    return [*alone, *islice(mixed, 200 - len(alone))]


PLAIN_ANSWERS = _answers()
