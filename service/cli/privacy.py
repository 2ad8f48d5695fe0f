"""Commands for deleting text that people wrote: ``text erase|purge``."""

from typing import Annotated

import typer

from setwise.service.cli.assembly import backend
from setwise.service.cli.console import CommandError, say
from setwise.service.domain.accounts.callers import SYSTEM

commands = typer.Typer(help="Delete the texts of documents.")


@commands.command()
def erase(
    document_id: Annotated[
        str, typer.Argument(help="Id that the sender gave the document.", metavar="ID")
    ],
    prediction: Annotated[
        bool, typer.Option("--prediction", help="ID is that of a prediction.")
    ] = False,
) -> None:
    """Erase a document; only its labels and numbers stay."""
    named = {"prediction_id" if prediction else "document_id": document_id}
    with backend() as opened:
        erasure = opened.services.texts.erase(SYSTEM, **named)
    count = erasure.predictions
    if count == 0:
        kind = "prediction" if prediction else "document"
        hint = "" if prediction else ". Give the id that its sender gave it"
        raise CommandError(f"no stored {kind} has the id {document_id!r}; nothing was erased{hint}")
    say(
        f"erased from {count} prediction{'' if count == 1 else 's'}; a worker now removes it from "
        "files of jobs"
    )
    if erasure.labels:
        say(
            "people gave it labels that no lead has accepted and that may name a person; a lead "
            f"removes them at /board/labels: {', '.join(erasure.labels)}"
        )


@commands.command()
def purge() -> None:
    """Delete the texts whose retention time is over."""
    with backend() as opened:
        say(f"purged {opened.services.texts.purge()} documents")
