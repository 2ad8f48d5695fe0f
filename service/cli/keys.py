"""Commands for API keys: ``key create|list|rotate|revoke``."""

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.service.cli.assembly import backend
from setwise.service.cli.console import (
    AsJson,
    Columns,
    CommandError,
    note,
    print_items,
    print_json,
    say,
)
from setwise.service.domain.accounts.callers import SYSTEM, Permission, Role

if TYPE_CHECKING:
    from setwise.service.domain.accounts import ApiKey

_MEMBERS = (
    "id",
    "name",
    "role",
    "prefix",
    "created_at",
    "revoked_at",
    "scopes",
    "expires_at",
    "per_minute",
    "last_used_at",
    "old_expires_at",
)

commands = typer.Typer(help="Create, list, rotate and revoke API keys.")


@commands.command()
def create(
    role: Annotated[Role, typer.Option(help="Role of the key.")],
    name: Annotated[str, typer.Option(help="Name that the audit trail shows.")],
    *,
    scope: Annotated[
        list[Permission] | None, typer.Option(help="Restrict the key to this scope; repeatable.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="Expiry: 90d, 12h, 2027-01-31 or a full UTC time.")
    ] = None,
    per_minute: Annotated[
        int | None,
        typer.Option(min=0, help="Requests per minute to each server process; 0 for no limit."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it, once."""
    with backend() as opened:
        key, secret = opened.services.keys.create(
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
    with backend() as opened:
        keys = opened.services.keys.all(SYSTEM)
    columns: Columns = {
        "id": "id",
        "name": "name",
        "role": _powers,
        "begins with": lambda key: f"{key.prefix}…",
        "created": "created_at",
        "expires": "expires_at",
        "last used": "last_used_at",
        "revoked": "revoked_at",
    }
    print_items(keys, _MEMBERS, columns, as_json=as_json)


@commands.command()
def rotate(
    key_id: Annotated[str, typer.Argument(help="Id that `setwise key list` shows.")],
) -> None:
    """Replace a secret and print it; the old one works for a day."""
    with backend() as opened:
        key, secret = opened.services.keys.rotate(SYSTEM, key_id)
    say(secret)
    until = f"{key.old_expires_at:%-d %B, %H:%M} UTC"
    note(f"New secret of {key.name}. The old one works until {until}.")


@commands.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="Id that `setwise key list` shows.")],
) -> None:
    """Revoke a key for good; servers notice within seconds."""
    with backend() as opened:
        key = opened.services.keys.revoke(SYSTEM, key_id)
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
