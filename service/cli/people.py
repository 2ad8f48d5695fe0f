"""Commands for people: ``person create|list|change|password|disable|enable|erase``."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from setwise.service.cli.assembly import backend
from setwise.service.cli.console import (
    AsJson,
    CommandError,
    described,
    print_items,
    print_json,
    say,
)
from setwise.service.domain.accounts.callers import SYSTEM, Role

if TYPE_CHECKING:
    from setwise.service.domain.accounts import Person

_MEMBERS = ("id", "login", "name", "role", "created_at", "disabled_at")

commands = typer.Typer(help="Manage the people who sign in.")

Who = Annotated[str, typer.Argument(help="Login name or id.", metavar="LOGIN")]


@commands.command()
def create(
    login: Annotated[str, typer.Option(help="Login name, for example an email address.")],
    name: Annotated[str, typer.Option(help="Full name, shown to others and in the audit trail.")],
    role: Annotated[Role, typer.Option(help="Role; `client` is for keys only.")],
    as_json: AsJson = False,
) -> None:
    """Create an account; the password comes from a prompt or stdin."""
    with backend() as opened:
        person = opened.services.people.create(
            SYSTEM, login=login, name=name, role=role, password=_password()
        )
    _tell(person, "may sign in", as_json=as_json)


@commands.command(name="list")
def list_people(as_json: AsJson = False) -> None:
    """List all accounts, disabled ones included."""
    with backend() as opened:
        people = opened.services.people.all(SYSTEM)
    columns = {name: name for name in ("login", "name", "role", "id")}
    columns |= {"created": "created_at", "disabled": "disabled_at"}
    print_items(people, _MEMBERS, columns, as_json=as_json)


@commands.command()
def change(
    who: Who,
    name: Annotated[str | None, typer.Option(help="New name.")] = None,
    role: Annotated[Role | None, typer.Option(help="New role; ends the person's sessions.")] = None,
    as_json: AsJson = False,
) -> None:
    """Change a name or a role."""
    if name is None and role is None:
        raise CommandError("nothing to change; give --name or --role")
    with backend() as opened:
        person = opened.services.people.change(SYSTEM, who, name=name, role=role)
    _tell(person, "is changed", as_json=as_json)


@commands.command()
def password(who: Who) -> None:
    """Set a new password, from a prompt or stdin, and sign out."""
    with backend() as opened:
        person = opened.services.people.change(SYSTEM, who, password=_password())
    _tell(person, "has another password", as_json=False)


@commands.command()
def disable(who: Who) -> None:
    """Disable an account and sign it out at once."""
    _allow(who, disabled=True)


@commands.command()
def enable(who: Who) -> None:
    """Enable a disabled account."""
    _allow(who, disabled=False)


@commands.command()
def erase(who: Who) -> None:
    """Erase login, name and password; decisions stay."""
    with backend() as opened:
        person = opened.services.people.erase(SYSTEM, who)
    say(f"{person.id}  is erased; the audit trail keeps the old name")


def _allow(who: str, *, disabled: bool) -> None:
    with backend() as opened:
        person = opened.services.people.change(SYSTEM, who, disabled=disabled)
    _tell(person, "is disabled" if disabled else "may sign in", as_json=False)


def _password() -> str:
    """Return a password from a prompt or the first line of stdin.

    It is never an argument: other users of the machine can read arguments, and the shell's history
    stores them.
    """
    if sys.stdin.isatty():
        asked: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
        return asked
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise CommandError("no password; type it on a terminal or send it as one line to stdin")
    return line


def _tell(person: "Person", what: str, *, as_json: bool) -> None:
    if as_json:
        print_json(described(person, _MEMBERS))
    else:
        say(f"{person.id}  {person.login} ({person.name}, {person.role}) {what}")
