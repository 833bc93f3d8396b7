"""Extensions: what stands around the core, each a folder of its own, registered by one object.

The core imports no extension: it finds them by entry points of the group `selfcrag.extensions`, so
other packages can bring some as well. An extension imports the core and never another extension.
One that SELFCRAG_EXTENSIONS_OFF names is not imported.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from fastapi import FastAPI

from app.errors import StartFailed
from app.schemas.ask import Event, Problem
from app.settings import ExtensionSettings

GROUP = "selfcrag.extensions"
Listener = Callable[[str, Event], None]
"""Gets a run's id and each of its events, on the event loop."""


class ServiceExtension:
    """What an extension may bring; what it needs is imported in these methods."""

    is_server = False
    """Left out where another server stands around the service, which has one of the kind."""
    errors_below = ""
    """A path below which errors have its own form: `error_body`."""
    settings: type[ExtensionSettings] | None = None
    """Its settings, read by the extension itself; named here, they are no unknown ones."""

    def add_to(self, app: FastAPI) -> None:
        """Bring its routes, and handlers of its own exceptions."""

    def error_body(self, problem: Problem) -> object:
        """The body of an error below `errors_below`."""
        return problem.model_dump(exclude_none=True)

    def listening(self, app: FastAPI) -> AbstractAsyncContextManager[Sequence[Listener]]:
        """Entered before the first run, with who listens to all of them; left after the last."""
        return nullcontext(())

    def opened(self, app: FastAPI) -> AbstractAsyncContextManager[object]:
        """Entered once the core's parts stand in `app.state`, left before they are closed."""
        return nullcontext()

    def stop(self, app: FastAPI) -> None:
        """End what would hold the server up: it has been told to stop."""


@cache
def installed() -> dict[str, EntryPoint]:
    """By name; looked for once, through the metadata of every package that is installed."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def load_extensions(off: Collection[str] = ()) -> list[ServiceExtension]:
    """All that are installed but for those named, by name. Raises StartFailed."""
    entries = installed()
    if unknown := sorted({*off} - {*entries}):
        known = ", ".join(sorted(entries)) or "none"
        raise StartFailed(f"there is no extension {unknown[0]}; installed: {known}")
    extensions = []
    for name in sorted({*entries} - {*off}):
        try:
            extensions.append(entries[name].load())
        except (ImportError, AttributeError) as error:
            raise StartFailed(
                f"extension {name} cannot be loaded ({error}); install what it needs, or name it in"
                " SELFCRAG_EXTENSIONS_OFF"
            ) from error
    return extensions


def settings_of(extensions: Iterable[ServiceExtension]) -> list[type[ExtensionSettings]]:
    return [each.settings for each in extensions if each.settings]
