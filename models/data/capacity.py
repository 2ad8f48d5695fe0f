"""Checks before training that its scores fit into memory."""

import os
import sys
from pathlib import Path

BYTES_PER_SCORE = 12
"""Bytes that cross-fitting needs for each document and label: a raw score in single and a
probability in double precision. Everything else is computed a few thousand documents at a time."""

MOST_WHOLE = 100_000_000
"""Most pairs of document and label whose scores are all kept."""

KEPT_SCORES = 64
"""Scores that are kept of each document if there are more pairs, those of the likeliest labels."""

BYTES_PER_KEPT = 2 * BYTES_PER_SCORE
"""Bytes for each score that is kept: the label of both scores, and its place."""

_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


def rows_at_once(n_labels: int, most: int = 8192) -> int:
    """Return how many rows of scores to spread out at once, at most 8 MB in double precision.

    An allocator reuses arrays of this size. Larger ones come from the system, page by page, each
    time, which takes longer than to compute what they hold.
    """
    return max(1, min(most, 2**20 // max(n_labels, 1)))


def check_room(
    n_documents: int, n_labels: int, available: int | None = None, *, whole: bool = False
) -> None:
    """Raise an error if label scores do not fit into memory.

    Parameters
    ----------
    n_documents, n_labels : int
    whole : bool, default False
        All scores are needed at once, however many there are.
    available : int, optional
        Bytes; by default what the machine, its container and the process limit leave. If that is
        unknown, the check passes.

    Raises
    ------
    ValueError
        If the scores need more memory.

    Examples
    --------
    >>> check_room(1_000_000, 10_000, available=2**30)
    Traceback (most recent call last):
    ...
    ValueError: 1,000,000 documents and 10,000 labels need 2 GB of memory for their scores; \
1 GB are free. Train on fewer documents, or on the labels that matter
    """
    room = available_memory() if available is None else available
    needed = BYTES_PER_SCORE * n_documents * n_labels
    if n_documents * n_labels > MOST_WHOLE and not whole:
        needed = min(needed, BYTES_PER_KEPT * n_documents * KEPT_SCORES)
    if room is not None and needed > room:
        raise ValueError(
            f"{n_documents:,} documents and {n_labels:,} labels need {needed / 1e9:.0f} GB of "
            f"memory for their scores; {room / 1e9:.0f} GB are free. Train on fewer documents, "
            "or on the labels that matter"
        )


def available_memory() -> int | None:
    """Return the bytes this process can still allocate, None if unknown."""
    bounds = [_free_of_machine(), _free_of_container(), _free_of_process()]
    finite = [bound for bound in bounds if bound is not None]
    return max(min(finite), 0) if finite else None


def _free_of_machine() -> int | None:
    fields = dict(line.split(":", 1) for line in _lines(_MEMINFO) if ":" in line)
    sizes = [fields[name].split()[0] for name in ("MemAvailable", "SwapFree") if name in fields]
    return 1024 * sum(map(int, sizes)) if sizes else None


def _free_of_container() -> int | None:
    limit, used = _lines(_CGROUP / "memory.max"), _lines(_CGROUP / "memory.current")
    if not limit or not used or not limit[0].isdigit():
        return None
    return int(limit[0]) - int(used[0])


def _free_of_process() -> int | None:
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415  # Unix only

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    size = _lines(Path("/proc/self/statm"))
    if limit == resource.RLIM_INFINITY or not size:
        return None
    return limit - int(size[0].split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except OSError:
        return []
