"""Password hashes with Argon2id (RFC 9106)."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import BoundedSemaphore

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from setwise.service.domain.errors import TooManyRequests

TIME_COST, MEMORY_KIB, LANES = 3, 65_536, 4
"""RFC 9106, section 4, the second recommended option: three passes over 64 MiB."""

MOST_AT_ONCE = 2
"""Most hashes computed at the same time, which bounds memory."""

MOST_WAITING = 8
"""Most people who wait for their hash, each with a thread that serves no other request."""

PATIENCE_S = 5.0


class Argon2Passwords:
    """Hashes and verifies passwords.

    ``time_cost``, ``memory_kib``: Passes, and memory in KiB; only tests use less.
    """

    def __init__(self, *, time_cost: int = TIME_COST, memory_kib: int = MEMORY_KIB) -> None:
        self._hasher = PasswordHasher(
            time_cost=time_cost, memory_cost=memory_kib, parallelism=LANES, type=Type.ID
        )
        self._free = BoundedSemaphore(MOST_AT_ONCE)
        self._places = BoundedSemaphore(MOST_AT_ONCE + MOST_WAITING)
        # Verified for unknown names, so that they take as long as known ones.
        self._unknown: str | None = None

    def place(self) -> AbstractContextManager[None]:
        """Hold a place in the queue; raises `TooManyRequests` at once if it is full."""
        return _held(self._places, patience_s=0.0)

    def hash(self, password: str) -> str:
        """Return the encoded hash: algorithm, parameters, salt and digest."""
        with self._turn():
            return self._hasher.hash(password.encode("utf-8", "surrogatepass"))

    def verify(self, stored: str | None, password: str) -> bool:
        """Return whether a password matches; without a stored one, take as long."""
        if self._unknown is None:
            self._unknown = self.hash("not a password")
        with self._turn():
            try:
                self._hasher.verify(
                    self._unknown if stored is None else stored,
                    password.encode("utf-8", "surrogatepass"),
                )
            except (VerificationError, InvalidHashError):
                return False
        return stored is not None

    def outdated(self, stored: str) -> bool:
        """Return whether a stored hash has outdated parameters."""
        return self._hasher.check_needs_rehash(stored)

    def _turn(self) -> AbstractContextManager[None]:
        """Wait briefly for a hash, because a waiting thread serves no requests."""
        return _held(self._free, patience_s=PATIENCE_S)


@contextmanager
def _held(places: BoundedSemaphore, *, patience_s: float) -> Iterator[None]:
    if not places.acquire(timeout=patience_s):
        raise TooManyRequests(
            "Too many people are signing in; try again in a few seconds.", retry_after_s=PATIENCE_S
        )
    try:
        yield
    finally:
        places.release()
