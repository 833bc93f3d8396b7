"""Commands of extensions, which join those of the core once settings say which are on."""

from typing import TYPE_CHECKING

import typer
from typer.core import TyperGroup
from typer.main import get_command

if TYPE_CHECKING:
    from typer._click import Command, Context


class Commands(TyperGroup):
    """Reading settings takes a second: a command of the core does not wait for it."""

    def list_commands(self, ctx: "Context") -> list[str]:
        self._join()
        return super().list_commands(ctx)

    def get_command(self, ctx: "Context", cmd_name: str) -> "Command | None":
        if cmd_name not in self.commands:
            self._join()
        return super().get_command(ctx, cmd_name)

    def _join(self) -> None:
        from app.cli.terminal import fail
        from app.errors import StartFailed
        from app.extension import commands
        from app.settings import LoadingSettings, load_settings

        try:
            off = load_settings(LoadingSettings).extensions_off
        except StartFailed as error:
            fail(str(error))
        for entry in commands(off):
            alone = typer.Typer(add_completion=False)
            alone.command(entry.name)(entry.load())
            self.commands.setdefault(entry.name, get_command(alone))
