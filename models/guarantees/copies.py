"""Copies among checked answers: what tells them, and which of them stands for its document.

Near copies of a text have most pairs of neighbouring words in common. A MinHash tells them
[1]_: of two sets of pairs with a share J in common, a hash function has the same least hash with a
probability of J. A *band* is several such functions: texts are near copies if all agree in one of
the bands, with a probability of 1 - (1 - J^6)^8 for six functions in each of eight bands, which
rises from .01 at J = .35 to .96 at .83.

Answers of one cluster, such as near copies of one document, are right or wrong together. So a
threshold is tested twice (`setwise.models.guarantees.audit_tests.TestedTwice`): with each answer,
which is exact for the answers that came, and with one of each cluster, for the documents to come.
The one is chosen by a draw that knows nothing of what was found.

References
----------
.. [1] A. Broder, "On the resemblance and containment of documents", Sequences 1997; bands as in
   J. Leskovec, A. Rajaraman and J. Ullman, "Mining of Massive Datasets", section 3.4.
"""

import hashlib
import zlib
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

BANDS = 8
HASHES = 6
"""Functions of each band."""
LEAST_WORDS = 8
"""Fewest words that tell near copies: of shorter texts, one other word leaves too little."""

_MULTIPLIERS, _SUMMANDS = np.frombuffer(
    hashlib.shake_256(b"bands").digest(2 * BANDS * HASHES * 8), dtype="<u8"
).reshape(2, BANDS * HASHES, 1)
_NEXT = np.uint64(0x9E3779B97F4A7C15)
"""Tells "a b" from "b a"."""


def bands_of(words: Sequence[str]) -> list[bytes]:
    """Return the bands of a text, from its words in order; near copies have one at the same place.

    There are none for fewer than `LEAST_WORDS` words.

    Examples
    --------
    >>> text = "the patient was seen today with fever and a cough and went home on paracetamol"
    >>> one, other = (bands_of(text.replace("today", day).split()) for day in ("today", "again"))
    >>> len(one), any(a == b for a, b in zip(one, other))
    (8, True)
    >>> bands_of("fever and cough".split())
    []
    """
    if len(words) < LEAST_WORDS:
        return []
    hashes = np.array(
        [zlib.crc32(word.encode("utf-8", "surrogatepass")) for word in words], dtype=np.uint64
    )
    pairs = hashes[:-1] * _NEXT + hashes[1:]
    # Multiply-shift hashing: the upper half of a product modulo 2^64.
    least = ((pairs * (_MULTIPLIERS | 1) + _SUMMANDS) >> np.uint64(32)).min(axis=1)
    return [band.tobytes() for band in least.astype("<u4").reshape(BANDS, HASHES)]


def one_of_each(names: Sequence[Hashable], draws: Floats, looks: Rows) -> Rows:
    """Return the places of the answers that stand for their clusters, rising.

    The least draw of those that the first look at a cluster had stands for it: later looks
    count the same answer.

    Parameters
    ----------
    names : sequence of length n
        That of the cluster of each answer.
    draws : float64 ndarray of shape (n,)
        As of `keyed_draws`.
    looks : int64 ndarray of shape (n,)
        Place of the look that had each answer first, from 0, rising.

    Examples
    --------
    >>> one_of_each(["a", "b", "a"], np.array([0.5, 0.9, 0.2]), np.zeros(3, dtype=int))
    array([1, 2])
    >>> one_of_each(["a", "b", "a"], np.array([0.5, 0.9, 0.2]), np.array([0, 0, 1]))
    array([0, 1])
    """
    stands: dict[Hashable, int] = {}
    for place in np.lexsort((draws, looks)).tolist():
        stands.setdefault(names[place], place)
    return np.sort(np.fromiter(stands.values(), dtype=np.int64, count=len(stands)))


def keyed_draws(looks: Rows, *columns: NDArray[np.generic]) -> Floats:
    """Return numbers in [0, 1), one a row, that follow from the rows and not from their order.

    So nobody can try other draws with the same data, and more rows change no earlier draw.

    Parameters
    ----------
    looks : int64 ndarray of shape (n,)
        Place of the look that had each row first, from 0, rising.
    *columns : ndarray of shape (n,)

    Examples
    --------
    >>> first = np.zeros(3, dtype=int)
    >>> one = keyed_draws(first, np.array([0.5, 0.9, 0.9]))
    >>> other = keyed_draws(first, np.array([0.9, 0.5, 0.9]))
    >>> sorted(one) == sorted(other), bool(one[0] == other[1])
    (True, True)
    """
    order = np.lexsort((*columns[::-1], looks))
    first = order[looks[order] == 0]
    digest = hashlib.sha256()
    for column in columns:
        digest.update(np.ascontiguousarray(column[first]).tobytes())
    draws = np.empty(len(order))
    seed = int.from_bytes(digest.digest()[:16], "big")
    draws[order] = np.random.default_rng(seed).random(len(order))
    return draws
