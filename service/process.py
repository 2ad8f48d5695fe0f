"""How a process that serves for months uses Python's memory and the C library's."""

import ctypes
import gc
import sys

OBJECTS_BETWEEN_COLLECTIONS = 20_000
"""How many more objects there must be than after the last collection of garbage. A batch has nearly
ten thousand, which all go by themselves; walking through them took a tenth of its time."""

LONGEST_TURN_S = 0.0001
"""How long a thread keeps the interpreter from the others; Python's own 5 ms came after each commit
and each statement of a batch, and before each answer of the event loop. With 1 ms there
were a tenth fewer batches: who stores one asks for the interpreter a dozen times, for moments."""

MEMORY_POOLS = 2

_M_ARENA_MAX = -8
"""The name of the setting for glibc's ``mallopt``."""


def share_memory_pools() -> None:
    """Let all threads take memory from the same few pools; to be called before there are any.

    Threads come and go with the requests. glibc gives each a pool of its own, up to eight a core,
    and all of them fill up with the leftovers of large batches, for hours. They would save threads
    from waiting for each other, but those that allocate hold the interpreter anyway.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # other C libraries have no such pools
        mallopt(_M_ARENA_MAX, MEMORY_POOLS)


def settle() -> None:
    """Set what suits a process that has loaded all it needs."""
    # What is loaded by now stays: full collections need not walk through it each time, which took
    # half of the time of a batch.
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    sys.setswitchinterval(LONGEST_TURN_S)
