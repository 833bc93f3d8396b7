"""The handbook's pages of options, settings and commands, and `.env.example`, from the code.

    python -m tests.handbook.reference

Names, defaults, ranges and the English come from the fields and from the help of the commands;
headings and the Chinese from reference.toml beside it. The Chinese of an option is what the
playground says.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel, SecretStr
from pydantic_settings import BaseSettings
from typer.main import get_command

from app.cli.main import cli
from app.extension import load_extensions, settings_of
from app.settings import Settings
from evaluator.commands import app as evaluator_cli
from evaluator.settings import WEIGHTS, EvaluatorSettings, ServeSettings
from graphs.options import Ablation, Context, CritiqueWeights, Filters

ROOT = Path(__file__).parents[2]
LANGUAGES = ("en", "zh")
TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PLAYGROUND = ROOT / "app/extensions/playground/page/options_zh.mjs"
ENV_EXAMPLE = ROOT / ".env.example"
ENV_MARK = "# Below are all settings with their defaults.\n"
INNER: Mapping[str, type[BaseModel]] = {
    "filters": Filters,
    "weights": CritiqueWeights,
    "ablation": Ablation,
}


@dataclass(frozen=True)
class Entry:
    """A setting, an option or a parameter; `default` is empty where there is none."""

    name: str
    text: str
    default: str
    schema: Mapping[str, Any]


def settings() -> dict[str, list[Entry]]:
    """By group, in the order of the page."""
    groups: dict[str, list[Entry]] = {name: [] for name in TEXTS["en"]["settings"]["groups"]}
    kinds: list[type[BaseSettings]] = [Settings, EvaluatorSettings, ServeSettings]
    for kind in kinds + settings_of(load_extensions()):
        group = "replicas" if kind is ServeSettings else "worker"
        for entry in _fields(kind):
            groups[entry.schema.get("group", group)].append(entry)
    order = list(TEXTS["zh"]["settings"]["texts"]).index
    return {
        name: sorted(entries, key=lambda entry: order(entry.name))
        for name, entries in groups.items()
    }


def options() -> dict[str, list[Entry]]:
    """By group; what stands inside another option follows it, behind its name and a dot."""
    groups: dict[str, list[Entry]] = {}
    for entry in _fields(Context):
        group = groups.setdefault(entry.schema["group"], [])
        group.append(entry)
        if inner := INNER.get(entry.name):
            group += _fields(inner, f"{entry.name}.")
    return groups


def _fields(kind: type[BaseModel], prefix: str = "") -> Iterator[Entry]:
    for name, schema in kind.model_json_schema(by_alias=False)["properties"].items():
        default = kind.model_fields[name].get_default(call_default_factory=True)
        full = variable(kind, name) if issubclass(kind, BaseSettings) else f"{prefix}{name}"
        yield Entry(full, schema["description"], shown(default), schema)


def variable(kind: type[BaseSettings], name: str) -> str:
    """The name of a field in the environment; a single alias takes its place."""
    alias = kind.model_fields[name].validation_alias
    return alias if isinstance(alias, str) else f"{kind.model_config['env_prefix']}{name}".upper()


def shown(default: object) -> str:
    """A default as the environment or a request has it."""
    if default is None or default in ((), []) or isinstance(default, BaseModel):
        return ""
    if isinstance(default, SecretStr):
        return default.get_secret_value()
    if isinstance(default, bool):
        return str(default).lower()
    if default == WEIGHTS:
        return WEIGHTS.relative_to(ROOT).as_posix()
    return f"{default:g}" if isinstance(default, float) else str(default)


def commands() -> Iterator[tuple[str, Any]]:
    """Each command of both programs by its full name."""
    yield from _below("selfcrag", get_command(cli))
    yield from _below("selfcrag-evaluator", get_command(evaluator_cli))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    context = typer.Context(command)
    for each in command.list_commands(context):
        yield from _below(f"{name} {each}", command.get_command(context, each))


def parameters(command: Any) -> Iterator[Entry]:
    """What a command takes: arguments in capitals, a flag that is on by its opposite."""
    for given in command.params:
        kind = given.type_descriptor.annotation
        is_on = given.default is True
        is_endless = given.default == float("inf")
        is_argument = given.param_type_name == "argument"
        names = given.secondary_opts if is_on else sorted(given.opts, key=len)
        schema = {
            "enum": get_args(kind) if get_origin(kind) is Literal else None,
            "minimum": given.min,
            "maximum": given.max,
            "required": given.required and not is_argument,
        }
        yield Entry(
            (given.metavar or given.name).upper() if is_argument else "`, `".join(names),
            given.help,
            "" if isinstance(given.default, bool) or is_endless else shown(given.default),
            schema,
        )


def line(entry: Entry, words: Mapping[str, str], text: str) -> str:
    """One bullet: the name, what a value may be, the default, what it is for."""
    kind = entry.schema.get("anyOf", [entry.schema])[0]
    about = []
    if values := kind.get("enum") or kind.get("items", {}).get("enum"):
        *most, last = (f"`{value}`" for value in values)
        about.append(f"{words['comma'].join(most)}{words['or']}{last}")
    least, greatest = kind.get("minimum"), kind.get("maximum")
    if least is not None and (least, greatest) != (0, None):
        bound = "least" if greatest is None else "range"
        about.append(words[bound].format(least, greatest))
    if kind.get("exclusiveMinimum") is not None:
        about.append(words["above"].format(kind["exclusiveMinimum"]))
    if kind.get("required"):
        about.append(words["required"])
    if entry.default:
        about.append(words["default"].format(entry.default))
    brackets = words["brackets"].format(words["semicolon"].join(about)) if about else ""
    return f"- `{entry.name}`{brackets}{words['colon']}{text}\n"


def grouped_page(language: str, page: str, groups: Mapping[str, list[Entry]]) -> str:
    """The head of a page, then its groups."""
    words, texts = TEXTS[language]["words"], TEXTS[language][page]
    chinese = {**playground(), **TEXTS["zh"][page].get("texts", {})}
    sections = [texts["head"]]
    for group, entries in groups.items():
        lines = (
            line(entry, words, entry.text if language == "en" else chinese[entry.name])
            for entry in entries
        )
        sections.append(f"## {texts['groups'][group].strip()}\n\n{''.join(lines)}")
    return "\n".join(sections)


def playground() -> dict[str, str]:
    """The options in Chinese."""
    table = PLAYGROUND.read_text(encoding="utf-8").partition("};")[0]
    return dict(re.findall(r'^  "?([\w.]+)"?: "(.+)",$', table, re.MULTILINE))


def commands_page(language: str) -> str:
    """The head of the page, then each command with its parameters."""
    words, texts = TEXTS[language]["words"], TEXTS[language]["commands"]
    sections = [texts["head"]]
    for name, command in commands():
        about = " ".join(command.help.split()) if language == "en" else texts["texts"][name]
        sections.append(f"## `{name}`\n\n{about}\n")
        lines = [
            line(entry, words, entry.text if language == "en" else chinese_help(name, entry.name))
            for entry in parameters(command)
        ]
        if lines:
            sections.append("".join(lines))
    return "\n".join(sections)


def chinese_help(command: str, parameter: str) -> str:
    """The text of the parameter of this command, or of all parameters of its name."""
    texts: dict[str, str] = TEXTS["zh"]["commands"]["texts"]
    name = parameter.split("`")[-1]
    return texts.get(f"{command} {name}") or texts[name]


def env_example() -> str:
    """What most set, as it stands, then every setting with its default."""
    most_set = ENV_EXAMPLE.read_text(encoding="utf-8").partition(ENV_MARK)[0]
    parts = [most_set + ENV_MARK]
    for group, entries in settings().items():
        title = TEXTS["en"]["settings"]["groups"][group].strip().partition("\n")[0]
        parts.append(f"{f'# --- {title} ':-<78}\n")
        parts += [f"# {entry.text}\n#{entry.name}={entry.default}\n" for entry in entries]
    parts.append("# Used where the setting of the same name is empty:\n")
    parts.append("#TAVILY_API_KEY=\n")
    return "\n".join(parts)


def files() -> dict[Path, str]:
    """Each file by its path."""
    written = {ENV_EXAMPLE: env_example()}
    for language in LANGUAGES:
        folder = ROOT / "docs" / language / "reference"
        written[folder / "options.md"] = grouped_page(language, "options", options())
        written[folder / "settings.md"] = grouped_page(language, "settings", settings())
        written[folder / "commands.md"] = commands_page(language)
    return written


def main() -> None:
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
