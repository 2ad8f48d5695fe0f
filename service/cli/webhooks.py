"""Commands on webhooks: ``webhook add|list|remove``."""

# ruff: noqa: PLC0415 - the service's libraries import slowly: only where needed

from typing import Annotated

import typer

from setwise.service.cli.assembly import backend
from setwise.service.cli.console import (
    AsJson,
    Columns,
    described,
    note,
    print_items,
    print_json,
    say,
)
from setwise.service.domain.accounts.callers import SYSTEM
from setwise.service.domain.webhooks import MessageType

_MEMBERS = ("id", "url", "description", "events", "enabled", "created_at")

commands = typer.Typer(help="Add, list and remove webhooks.")


@commands.command()
def add(
    url: Annotated[str, typer.Argument(help="https address that receives the messages.")],
    events: Annotated[
        list[MessageType] | None,
        typer.Option("--event", help="Event to send; repeatable. All by default."),
    ] = None,
    description: Annotated[str, typer.Option(help="Note for administrators.")] = "",
    as_json: AsJson = False,
) -> None:
    """Add a webhook and print its signing secret, once."""
    from setwise.service.domain.webhooks import EndpointChange

    with backend() as opened:
        change = EndpointChange(url, description, events or ())
        endpoint, secret = opened.services.webhooks.add(SYSTEM, change)
    if as_json:
        print_json({**described(endpoint, _MEMBERS), "secret": secret})
    else:
        say(secret)
        note(f"webhook {endpoint.id} to {endpoint.url}. Keep the secret: it is not shown again.")


@commands.command(name="list")
def list_webhooks(as_json: AsJson = False) -> None:
    """List the webhooks, without their secrets."""
    with backend() as opened:
        endpoints = opened.services.webhooks.page(SYSTEM)
    columns: Columns = {
        "id": "id",
        "url": "url",
        "events": lambda endpoint: ", ".join(endpoint.events) or "all",
        "disabled": "disabled_because",
    }
    print_items(endpoints, _MEMBERS, columns, as_json=as_json)


@commands.command()
def remove(
    webhook_id: Annotated[str, typer.Argument(help="Id that `setwise webhook list` shows.")],
) -> None:
    """Remove a webhook and cancel its deliveries."""
    with backend() as opened:
        opened.services.webhooks.delete(SYSTEM, webhook_id)
    say(f"{webhook_id}  removed")
