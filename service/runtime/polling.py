"""The loop of a thread that looks for work until it is stopped."""

import threading
from collections.abc import Callable

import structlog

from setwise.service.domain.errors import StorageDamaged, StorageUnavailable

POLL_S = 1.0
"""Usual pause, in seconds: people wait for jobs and deliveries this long."""

LONGEST_PAUSE_S = 30.0
"""Longest pause after a failure, in seconds."""

log = structlog.get_logger(__name__)


def poll(step: Callable[[], None], stopping: threading.Event, *, poll_s: float, name: str) -> None:
    """Take a step after each pause until ``stopping`` is set; wait longer after failures.

    ``step``: Does all that there is to do.
    ``name``: Of the thread, for the log.
    """
    pause_s = poll_s
    while not stopping.is_set():
        try:
            step()
        except (StorageUnavailable, StorageDamaged) as error:
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            log.warning("polling.waits", thread=name, reason=error.detail, seconds=pause_s)
        except Exception:
            pause_s = LONGEST_PAUSE_S
            log.exception("polling.failed", thread=name, seconds=pause_s)
        else:
            pause_s = poll_s
        stopping.wait(pause_s)
