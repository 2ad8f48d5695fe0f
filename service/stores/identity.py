"""Where ids come from."""

from collections.abc import Callable

import uuid_utils

NewId = Callable[[], str]


def new_id() -> str:
    """Return a UUIDv7 (RFC 9562, section 5.7) greater than any that this process made before.

    A counter orders ids of one millisecond, so lists by id are lists by time even in a burst.
    """
    return str(uuid_utils.uuid7())
