"""Commands for deleting text that people wrote: ``text erase|purge``."""

# ruff: noqa: PLC0415 - the service's libraries import slowly: only where needed

from typing import Annotated

import typer

from setwise.service.cli.assembly import application
from setwise.service.cli.console import CommandError, say

commands = typer.Typer(help="Delete the texts of documents.")


@commands.command()
def erase(
    document_id: Annotated[str, typer.Argument(help="Id that the sender gave the document.")],
) -> None:
    """Delete text, features, metadata, comments and id of a document."""
    from setwise.service.domain.callers import SYSTEM

    with application() as built:
        count = built.services.predictions.erase_document(SYSTEM, document_id)
    if not count:
        raise CommandError(
            f"no stored document has the id {document_id!r}; nothing was erased. Give the id that "
            "its sender gave it"
        )
    say(f"erased from {count} prediction{'' if count == 1 else 's'}")


@commands.command()
def purge() -> None:
    """Delete the texts whose retention time is over."""
    with application() as built:
        say(f"purged {built.services.predictions.purge_texts()} documents")
