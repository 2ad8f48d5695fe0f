"""Requests for people and API keys."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, SecretStr

from setwise.service.domain.accounts import MOST_PER_MINUTE, ApiKey, Person
from setwise.service.domain.accounts.callers import PERMISSIONS, Caller, Permission, Role
from setwise.service.requests import Input, Instant, RequestBody
from setwise.service.services.accounts.keys import Keys
from setwise.service.services.accounts.people import People

# Bodies are strict, and JSON has no enumerations.
_Role = Annotated[Role, Field(strict=False)]
_Scope = Annotated[Permission, Field(strict=False)]
_Password = Annotated[SecretStr, Field(strict=False, max_length=2_000)]

DAYS_INVITED = 7
"""How long an invitation is valid by default."""


def _choices(meanings: Mapping[Role, str]) -> list[tuple[str, str]]:
    return [(role.value, f"{role}: {meaning}") for role, meaning in meanings.items()]


_IN_BOTH = {
    Role.ADMIN: "may do everything",
    Role.AUDITOR: "reads everything and changes nothing",
}
_PERSON_ROLES = _choices(
    {
        Role.REVIEWER: "submits reviews at the desk",
        Role.LEAD: "reviews, decides between two answers, reads reports",
        **_IN_BOTH,
    }
)
_KEY_ROLES = _choices(
    {
        Role.CLIENT: "a program that sends documents",
        Role.REVIEWER: "a program that submits reviews",
        Role.LEAD: "reviews, and reads reports and all predictions",
        **_IN_BOTH,
    }
)
_SCOPES = {
    Permission.PREDICT: "post documents and read their predictions",
    Permission.READ_ALL_PREDICTIONS: "read the predictions of every client",
    Permission.READ_QUEUE: "read the queue",
    Permission.REVIEW: "claim and submit reviews",
    Permission.REPORT: "read reports",
    Permission.INSPECT: "read what administrators change, such as policy, models and keys",
    Permission.READ_AUDIT_TRAIL: "read the audit trail",
    Permission.RUN_JOBS: "start jobs and read their results",
    Permission.ADMINISTER: "change all of these",
}


def _who(scope: Permission) -> str:
    roles = ", ".join(role for role in Role if scope in PERMISSIONS[role])
    return f"To {_SCOPES[scope]}. For {roles}."


class PersonRequest(RequestBody):
    """A new account."""

    login: Annotated[str, Input("Login name", "What they type to sign in.")] = Field(max_length=200)
    name: Annotated[str, Input("Name", "As others see it.")] = Field(max_length=200)
    role: Annotated[_Role, Input("Role", "", "select", _PERSON_ROLES)] = Field(
        description="Any role but `client`, which is for keys."
    )
    password: Annotated[
        _Password | None,
        Input("First password", "At least 12 characters; then there is no link.", "password"),
    ] = Field(None, description="At least 12 characters; without one, invite the person.")


class InvitationRequest(RequestBody):
    """For how long a person is invited."""

    days: Annotated[
        int, Input("Link valid for days", "They set a password through a link that works once.")
    ] = Field(DAYS_INVITED, description="From 1 to 30.")


class PersonChange(RequestBody):
    """Changes to an account; missing values keep the old ones."""

    name: Annotated[str | None, Input("Name", required=True)] = Field(None, max_length=200)
    role: Annotated[
        _Role | None,
        Input("Role", "A new role ends their sessions.", "select", _PERSON_ROLES, required=True),
    ] = None
    disabled: bool | None = None
    password: Annotated[
        _Password | None,
        Input(
            "Password",
            "At least 12 characters. All sessions of the account end.",
            "password",
            required=True,
        ),
    ] = None

    def change(self, people: People, caller: Caller, person_id: str) -> Person:
        """Make the changes; return the person."""
        return people.change(
            caller,
            person_id,
            name=self.name,
            role=self.role,
            disabled=self.disabled,
            password=None if self.password is None else self.password.get_secret_value(),
        )


class KeyRequest(RequestBody):
    """A new key."""

    name: Annotated[str, Input("Name", "Who it is for, as the audit trail shows it.")] = Field(
        max_length=200
    )
    role: Annotated[_Role, Input("Role", widget="select", choices=_KEY_ROLES)]
    expires_at: Annotated[
        Instant | None,
        Input(
            "Valid until the end of",
            "A day in UTC. Leave empty for a key that never expires.",
            "date",
        ),
    ] = None
    per_minute: Annotated[
        int | None,
        Input("Requests per minute", "0 for no limit; leave empty for the default limit."),
    ] = Field(None, ge=0, le=MOST_PER_MINUTE)
    scopes: Annotated[
        list[_Scope] | None,
        Input(
            "Allowed scopes (none selected: everything its role may do)",
            widget="boxes",
            choices=[(scope.value, scope.value, _who(scope)) for scope in _SCOPES],
            fold="Restrict to some scopes",
        ),
    ] = Field(None, max_length=20)

    def create(self, keys: Keys, caller: Caller) -> tuple[ApiKey, str]:
        """Create the key; return it with its secret."""
        return keys.create(
            caller,
            self.name,
            self.role,
            scopes=None if self.scopes is None else frozenset(self.scopes),
            expires_at=self.expires_at,
            per_minute=self.per_minute,
        )
