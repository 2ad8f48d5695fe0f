"""Roles, permissions, key secrets."""

import hashlib
import hmac

import pytest

from setwise.service.domain.accounts import PREFIX_LENGTH, KeyDigest, secret_for
from setwise.service.domain.accounts.callers import SYSTEM, Caller, Permission, Role
from setwise.service.domain.errors import Forbidden

GRANTED = {
    Role.CLIENT: {Permission.PREDICT, Permission.RUN_JOBS},
    Role.REVIEWER: {Permission.READ_QUEUE, Permission.REVIEW},
    Role.LEAD: {
        Permission.READ_QUEUE,
        Permission.REVIEW,
        Permission.REPORT,
        Permission.READ_ALL_PREDICTIONS,
        Permission.RUN_JOBS,
    },
    Role.ADMIN: set(Permission),
    Role.AUDITOR: set(Permission)
    - {Permission.PREDICT, Permission.REVIEW, Permission.RUN_JOBS, Permission.ADMINISTER},
}


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("permission", Permission)
def test_each_role_may_do_what_it_is_for_and_nothing_else(
    role: Role, permission: Permission
) -> None:
    caller = Caller("1", "somebody", role)
    assert caller.may(permission) == (permission in GRANTED[role])
    if permission in GRANTED[role]:
        caller.require(permission)
    else:
        with pytest.raises(Forbidden, match="admin"):
            caller.require(permission)


def test_a_refusal_names_the_roles_that_would_do() -> None:
    with pytest.raises(
        Forbidden, match=r"The role client may not do this.*: reviewer, lead, admin\."
    ):
        Caller("1", "billing", Role.CLIENT).require(Permission.REVIEW)


def test_the_service_itself_may_do_everything() -> None:
    assert all(SYSTEM.may(permission) for permission in Permission)


def test_a_digest_is_keyed_by_the_pepper() -> None:
    secret = secret_for(Role.CLIENT, "x" * 43)
    digest = KeyDigest(b"pepper")(secret)
    assert digest == hmac.new(b"pepper", secret.encode(), hashlib.sha256).digest()
    assert KeyDigest(b"salt")(secret) != digest


def test_a_digest_exists_for_whatever_a_header_may_hold() -> None:
    for secret in ("", "\x00", "ключ", "\udcff", "x" * 100_000):
        assert len(KeyDigest(b"pepper")(secret)) == 32


def test_the_pepper_does_not_show_in_a_log() -> None:
    assert "hush" not in repr(KeyDigest(b"hush"))


@pytest.mark.parametrize("role", Role)
def test_a_prefix_shows_the_role_but_leaves_the_secret_safe(role: Role) -> None:
    secret = secret_for(role, "R" * 43)
    text = secret[:PREFIX_LENGTH]
    assert text.startswith(f"sw_{role}")
    # 43 characters carry 256 bits; at least 35 of them (210 bits) stay unknown.
    assert len(secret) - PREFIX_LENGTH >= 35
