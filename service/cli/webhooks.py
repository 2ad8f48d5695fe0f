"""Commands on webhooks: ``webhook add|list|remove``."""

# ruff: noqa: PLC0415 - the service's libraries import slowly: only where needed

from typing import TYPE_CHECKING, Annotated

import typer

from setwise.service.cli.assembly import application
from setwise.service.cli.console import note, print_json, print_table, say
from setwise.service.domain.webhooks import MessageType

if TYPE_CHECKING:
    from setwise.service.domain.webhooks import Endpoint

commands = typer.Typer(help="Add, list and remove webhooks.")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


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
    from setwise.service.domain.callers import SYSTEM
    from setwise.service.domain.webhooks import EndpointChange

    with application() as built:
        change = EndpointChange(url, description, events or ())
        endpoint, secret = built.services.webhooks.add(SYSTEM, change)
    if as_json:
        print_json({**_described(endpoint), "secret": secret})
    else:
        say(secret)
        note(f"webhook {endpoint.id} to {endpoint.url}. Keep the secret: it is not shown again.")


@commands.command(name="list")
def list_webhooks(as_json: AsJson = False) -> None:
    """List the webhooks, without their secrets."""
    from rich.table import Column, Table

    from setwise.service.domain.callers import SYSTEM

    with application() as built:
        endpoints = built.services.webhooks.page(SYSTEM)
    if as_json:
        print_json({"items": [_described(endpoint) for endpoint in endpoints]})
        return
    table = Table(Column("id", min_width=36), "url", "events", "disabled")
    for endpoint in endpoints:
        table.add_row(
            endpoint.id,
            endpoint.url,
            ", ".join(endpoint.events) or "all",
            endpoint.disabled_because or "",
        )
    print_table(table)


@commands.command()
def remove(
    webhook_id: Annotated[str, typer.Argument(help="Id that `setwise webhook list` shows.")],
) -> None:
    """Remove a webhook and cancel its deliveries."""
    from setwise.service.domain.callers import SYSTEM

    with application() as built:
        built.services.webhooks.delete(SYSTEM, webhook_id)
    say(f"{webhook_id}  removed")


def _described(endpoint: "Endpoint") -> dict[str, object]:
    return {
        "id": endpoint.id,
        "url": endpoint.url,
        "description": endpoint.description,
        "events": [kind.value for kind in endpoint.events],
        "enabled": endpoint.enabled,
        "created_at": endpoint.created_at.isoformat(),
    }
