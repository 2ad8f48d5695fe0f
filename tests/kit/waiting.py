"""Waits for events, however busy the machine."""

import time
from collections.abc import Callable

PATIENCE_S = 300.0
"""Far longer than anything takes, so that only what never happens fails."""


def eventually(holds: Callable[[], object], what: object = "it") -> None:
    """Return once ``holds`` says so; ``what`` names the event that is waited for."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it never came true: {what}"
        time.sleep(0.005)
