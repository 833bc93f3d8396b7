"""`selfcrag backup`, `restore` and `check`."""

from typing import Annotated

import typer

from app.cli.interrupt import interruptible


def backup(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A new folder, or a new file that ends in .tar or .tar.gz; -: standard output.",
        ),
    ],
) -> None:
    """Copy the state folder, also while the service runs."""
    from app.extensions.backup import command

    with interruptible("no backup was made"):
        command.make_backup(target)


def restore(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A backup; -: standard input.")],
    force: Annotated[
        bool, typer.Option("--force", help="Replace the state that is there.")
    ] = False,
) -> None:
    """Restore a backup into the state folder, while no service runs."""
    from app.extensions.backup import command

    with interruptible("the state is as it was before"):
        command.restore_backup(source, force)


def check() -> None:
    """Check that the configured parts answer; exit code 1 where something is wrong.

    A configured language model is asked for one word.
    """
    from app.extensions.backup.check import check_state

    with interruptible("nothing was changed"):
        check_state()
