"""The `setwise` command."""

import os
import platform
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer
from typer.exceptions import Abort, TyperException

from setwise.service.cli import (
    backup,
    certify,
    database,
    demo,
    doctor,
    evaluation,
    keys,
    learning,
    people,
    prediction_files,
    privacy,
    registry,
    serving,
    webhooks,
)
from setwise.service.cli.console import CommandError, note, one_line, say
from setwise.service.cli.targets import standard_output
from setwise.service.domain.errors import InvalidRequest, ServiceError

BAD_INPUT = 2
FAULT = 1  # an error of Setwise, not of the user
INTERRUPTED = 130  # as shells report SIGINT
READER_GONE = 141  # as shells report SIGPIPE

app = typer.Typer(
    name="setwise",
    help="Label sets with a calibrated confidence: send the sure ones, review the rest.",
    rich_markup_mode=None,  # plain-text help needs no imports and can be searched
)


def _version(show: bool) -> None:
    if show:
        say(f"setwise {version('setwise')}, Python {platform.python_version()}")
        raise typer.Exit


@app.callback()
def _setwise(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Label sets with a calibrated confidence: send the sure ones, review the rest."""


# Heavy imports belong inside the commands, so that `setwise --help` stays quick.
app.add_typer(demo.commands)
app.add_typer(learning.commands)
app.add_typer(evaluation.commands)
app.add_typer(prediction_files.commands)
app.add_typer(certify.commands)
app.add_typer(serving.commands)
app.add_typer(database.commands, name="db")
app.add_typer(backup.commands)
app.add_typer(doctor.commands)
app.add_typer(registry.commands, name="model")
app.add_typer(registry.labels, name="label")
app.add_typer(keys.commands, name="key")
app.add_typer(people.commands, name="person")
app.add_typer(privacy.commands, name="text")
app.add_typer(webhooks.commands, name="webhook")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit.

    The exit status is 0 for success, 2 for bad input, 130 after an interrupt, and 1 for an error of
    Setwise. Errors print one line on stderr.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    with warnings.catch_warnings():
        warnings.filterwarnings("default", category=UserWarning)
        warnings.showwarning = _show_warning
        try:
            with standard_output():
                status = app(
                    list(arguments) or ["--help"], prog_name="setwise", standalone_mode=False
                )
        except BrokenPipeError:
            _discard_output()
            status = READER_GONE
        except (KeyboardInterrupt, Abort):
            note("setwise: interrupted")
            status = INTERRUPTED
        except Exception as error:  # noqa: BLE001 - the outermost frame reports every error
            status = _tell(error)
            if isinstance(error, OSError | CommandError):
                _discard_output()
    sys.exit(status if isinstance(status, int) else 0)


def _discard_output() -> None:
    """Leave nothing to write at exit, where Python would report the same fault again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(error: Exception) -> int:
    """Print one line about an error; return its exit status."""
    if os.environ.get("SETWISE_LOG_LEVEL", "").lower() == "debug":
        traceback.print_exception(error)
    if isinstance(error, TyperException):
        message = one_line(error.format_message()).rstrip(".")
        separator = "" if message.endswith("?") else ";"
        note(f"setwise: {message}{separator} see setwise --help")
        return BAD_INPUT
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        note(f"setwise: {one_line(name + (error.strerror or str(error)))}")
        return BAD_INPUT
    # `models` and the settings raise ValueError for bad input.
    if isinstance(error, CommandError | ServiceError | ValueError):
        faults = error.faults if isinstance(error, InvalidRequest) else ()
        where = "; ".join(f"{fault.pointer.strip('/')} {fault.detail}" for fault in faults)
        note(f"setwise: {one_line(f'{error} {where}')}")
        return BAD_INPUT
    if isinstance(error, ModuleNotFoundError) and not (error.name or "").startswith("setwise"):
        library = (error.name or "a library").partition(".")[0]
        note(f"setwise: {library} is missing; run pip install 'setwise[service]' for this command")
        return BAD_INPUT
    note(
        f"setwise: unexpected {type(error).__name__}: {one_line(error)}; this is a fault in "
        "Setwise, run again with SETWISE_LOG_LEVEL=debug to see where"
    )
    return FAULT


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    note(f"setwise: warning: {one_line(message)}")
