"""Password hashes with Argon2id (RFC 9106)."""

from collections.abc import Iterator
from contextlib import contextmanager
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

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place in the queue; raises `TooManyRequests` at once if it is full."""
        if not self._places.acquire(blocking=False):
            raise _crowded()
        try:
            yield
        finally:
            self._places.release()

    def hash(self, password: str) -> str:
        """Return the encoded hash: algorithm, parameters, salt and digest."""
        with self._turn():
            return self._hasher.hash(password.encode("utf-8", "surrogatepass"))

    def verify(self, stored: str | None, password: str) -> bool:
        """Return whether a password matches.

        Without a stored one, it takes as long and returns False.
        """
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

    def _turn(self) -> "_Turn":
        return _Turn(self._free)


class _Turn:
    """Waits briefly for a place, because a waiting thread serves no requests."""

    def __init__(self, free: BoundedSemaphore) -> None:
        self._free = free

    def __enter__(self) -> None:
        if not self._free.acquire(timeout=PATIENCE_S):
            raise _crowded()

    def __exit__(self, *_: object) -> None:
        self._free.release()


def _crowded() -> TooManyRequests:
    return TooManyRequests(
        "Too many people are signing in; try again in a few seconds.", retry_after_s=PATIENCE_S
    )
