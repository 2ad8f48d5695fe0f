"""Slow down guesses of passwords (NIST SP 800-63B, section 5.2.2).

Failures count before a password is checked, so parallel guesses count too. They are stored, so all
processes of a service count together.
"""

from collections.abc import Callable
from dataclasses import dataclass

from setwise.service.domain.accounts import (
    ACCOUNT_BACKOFF,
    CHANGE_BACKOFF,
    DEVICE_BACKOFF,
    NETWORK_BACKOFF,
    REMEMBERED,
    Backoff,
    Device,
    network_of,
)
from setwise.service.domain.errors import TooManyRequests
from setwise.service.stores.database import Clock
from setwise.service.stores.transaction import Transaction, Transactions

_LOCKED = (
    "Too many attempts failed. Use a browser in which you signed in before, or ask an "
    "administrator to set a new password."
)
_ENDED = "Too many attempts failed. Sign out, and sign in again."


@dataclass(frozen=True)
class CountedAttempt:
    """An attempt that was counted as failed until it succeeds."""

    own: bytes
    """The count of the account, the device or the session; success clears it."""
    network: bytes | None = None
    """The count of the network, which success lowers by one."""


@dataclass(frozen=True)
class Throttle:
    """Counts of failed attempts; neither login names nor addresses are stored."""

    begin: Transactions
    now: Clock
    digest: Callable[[str], bytes]
    """Keyed hash that hides what is counted."""

    def sign_in(self, login: str, address: str | None, device: Device | None) -> CountedAttempt:
        """Count an attempt to sign in; raises `TooManyRequests` if it is too early.

        A device in which this login name signed in before is counted separately: strangers can
        neither slow it down nor lock it out. After too many failures it counts as a stranger.
        """
        if device is not None and device.login == login:
            own = self.digest(f"device {login} {device.id}")
            if self._count(_LOCKED, (own, DEVICE_BACKOFF), unless_exhausted=True):
                return CountedAttempt(own)
        own = self._account(login)
        network = self.digest(f"network {network_of(address)}")
        self._count(_LOCKED, (own, ACCOUNT_BACKOFF), (network, NETWORK_BACKOFF))
        return CountedAttempt(own, network)

    def change(self, session_id: str) -> CountedAttempt:
        """Count a guess of the present password in a session, as `sign_in` does."""
        own = self.digest(f"change {session_id}")
        self._count(_ENDED, (own, CHANGE_BACKOFF))
        return CountedAttempt(own)

    def succeeded(self, transaction: Transaction, counted: CountedAttempt) -> None:
        """Forget the failures before a success."""
        transaction.attempts.forget(counted.own, before=self.now() - REMEMBERED)
        if counted.network is not None:
            transaction.attempts.uncount(counted.network)

    def unchecked(self, counted: CountedAttempt) -> None:
        """Take back an attempt whose password was not checked."""
        with self.begin() as transaction:
            for key in (counted.own, counted.network):
                if key is not None:
                    transaction.attempts.uncount(key)

    def reset(self, transaction: Transaction, login: str) -> None:
        """Forget the failures of an account whose password is replaced."""
        transaction.attempts.forget(self._account(login), before=self.now() - REMEMBERED)

    def _account(self, login: str) -> bytes:
        return self.digest(f"account {login}")

    def _count(
        self, locked: str, *rules: tuple[bytes, Backoff], unless_exhausted: bool = False
    ) -> bool:
        with self.begin() as transaction:
            now = self.now()
            counts = [(rule, transaction.attempts.lock(key, now)) for key, rule in rules]
            if any(rule.exhausted(count, now) for rule, count in counts):
                if unless_exhausted:
                    transaction.roll_back()
                    return False
                raise TooManyRequests(locked, retry_after_s=REMEMBERED.total_seconds())
            wait = max(rule.wait(count, now).total_seconds() for rule, count in counts)
            if wait > 0:
                raise TooManyRequests(
                    f"Too many attempts failed; wait {wait:.0f} seconds and try again.",
                    retry_after_s=wait,
                )
            for rule, count in counts:
                transaction.attempts.save(rule.counted(count, now))
        return True
