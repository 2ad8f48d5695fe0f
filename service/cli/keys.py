"""Commands for API keys: ``key create|list|revoke``."""

# ruff: noqa: PLC0415 - the service's libraries import slowly: only where needed

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.service.cli.assembly import application
from setwise.service.cli.console import CommandError, note, print_json, print_table, say
from setwise.service.domain.callers import Permission, Role

if TYPE_CHECKING:
    from setwise.service.domain.accounts import ApiKey

commands = typer.Typer(help="Create, list and revoke API keys.")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@commands.command()
def create(
    role: Annotated[Role, typer.Option(help="Role of the key.")],
    name: Annotated[str, typer.Option(help="Name that the audit trail shows.")],
    *,
    scope: Annotated[
        list[Permission] | None,
        typer.Option(help="Restrict the key to this scope; repeatable."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(help="Expiry: 90d, 12h, 2027-01-31 or a full UTC time."),
    ] = None,
    per_minute: Annotated[
        int | None,
        typer.Option(min=0, help="Requests per minute to each server process; 0 for any."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it, once."""
    from setwise.service.domain.callers import SYSTEM

    with application() as built:
        key, secret = built.services.accounts.create_key(
            SYSTEM,
            name,
            role,
            scopes=frozenset(scope) if scope else None,
            expires_at=_instant(expires) if expires else None,
            per_minute=per_minute,
        )
    if as_json:
        print_json({"id": key.id, "name": key.name, "role": key.role, "key": secret})
    else:
        say(secret)
        note(f"{key.role} key {key.id} for {key.name}. Keep it: it is not shown again.")


@commands.command(name="list")
def list_keys(as_json: AsJson = False) -> None:
    """List the keys, newest first, without their secrets."""
    from rich.table import Column, Table

    from setwise.service.domain.callers import SYSTEM

    with application() as built:
        keys = built.services.accounts.keys(SYSTEM)
    if as_json:
        print_json({"items": [_described(key) for key in keys]})
        return
    table = Table(
        Column("id", min_width=36), "name", "role", "begins with", "created", "expires", "revoked"
    )
    for key in keys:
        table.add_row(
            key.id,
            key.name,
            _powers(key),
            f"{key.prefix}…",
            f"{key.created_at:%Y-%m-%d %H:%M}",
            f"{key.expires_at:%Y-%m-%d %H:%M}" if key.expires_at else "",
            f"{key.revoked_at:%Y-%m-%d %H:%M}" if key.revoked_at else "",
        )
    print_table(table)


@commands.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="Id that `setwise key list` shows.")],
) -> None:
    """Revoke a key for good; servers notice within seconds."""
    from setwise.service.domain.callers import SYSTEM

    with application() as built:
        key = built.services.accounts.revoke_key(SYSTEM, key_id)
    say(f"{key.id}  {key.name}, revoked")


def _instant(written: str) -> datetime:
    """Return an instant from a time span or UTC date/time."""
    span = re.fullmatch(r"(\d{1,5})([dh])", written)
    if span:
        hours = int(span[1]) * (24 if span[2] == "d" else 1)
        return datetime.now(UTC) + timedelta(hours=hours)
    try:
        instant = datetime.fromisoformat(written)
    except ValueError as error:
        raise CommandError(
            f"--expires {written!r}: write 90d, 12h, 2027-01-31 or 2027-01-31T18:00Z"
        ) from error
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def _powers(key: "ApiKey") -> str:
    return key.role if key.scopes is None else f"{key.role}: {', '.join(sorted(key.scopes))}"


def _described(key: "ApiKey") -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "role": key.role,
        "prefix": key.prefix,
        "created_at": key.created_at.isoformat(),
        "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
        "scopes": None if key.scopes is None else sorted(key.scopes),
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
        "per_minute": key.per_minute,
    }
