"""Writes the JSON of many predictions in one compiled pass, from numbers and words as bytes.

What callers are told and what is stored differ, see `service.use_cases.written`.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from service.inference.rounded import (
    LONGEST,
    Bytes,
    Numbers,
    Rounded,
    put_rounded,
    put_whole,
    put_written,
)

Columns = NDArray[np.int32]
Places = NDArray[np.int64]


def _bytes(text: bytes) -> Bytes:
    return np.frombuffer(text, dtype=np.uint8)


_OPEN, _CLOSE, _COMMA = (ord(mark) for mark in "[],")

_Marks = tuple[Bytes, ...]
_TOLD_SET = tuple(map(_bytes, (b'{"labels":[', b'],"confidence":', b',"score":', b"}")))
_STORED_SET = tuple(map(_bytes, (b"[[", b"],", b",", b"]")))
_TOLD_SHARE = tuple(map(_bytes, (b'{"label":', b',"probability":', b"}")))
_STORED_SHARE = tuple(map(_bytes, (b"[", b",", b"]")))
"""What stands before, between and behind the parts of a set, and of a marginal."""


class Words:
    """Finished JSON strings, end to end.

    Parameters
    ----------
    written : list of str
        A string of JSON for each label, in the order of the model's columns.
    """

    def __init__(self, written: list[str]) -> None:
        encoded = [word.encode() for word in written]
        self.text = _bytes(b"".join(encoded))
        self.starts = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(word) for word in encoded], out=self.starts[1:])


class Sets(NamedTuple):
    """Candidates: where those of each document begin, and the labels of each; their numbers.

    Attributes
    ----------
    doc_indptr : int64 ndarray of shape (n + 1,)
    set_indptr : int64 ndarray of shape (n_sets + 1,)
    labels : int32 ndarray
        Columns of labels.
    confidences : bytes
        A JSON array of ``n_sets`` numbers.
    scores : Rounded
        Likewise.
    """

    doc_indptr: Places
    set_indptr: Places
    labels: Columns
    confidences: bytes
    scores: Rounded


class Shares(NamedTuple):
    """Marginals: where those of each document begin, their labels and probabilities."""

    indptr: Places
    labels: Columns
    probabilities: Rounded


def write_answers(words: Words, sets: Sets, shares: Shares) -> Iterator[tuple[str, str, str, str]]:
    """Yield each document's candidates and marginals as told, then both as stored."""
    out, ends = _write(
        (words.text, words.starts),
        (_TOLD_SET, _TOLD_SHARE, _STORED_SET, _STORED_SHARE),
        (
            sets.doc_indptr, sets.set_indptr, sets.labels,
            _bytes(sets.confidences), sets.scores.values, _bytes(sets.scores.others),
        ),
        (
            shares.indptr, shares.labels,
            shares.probabilities.values, _bytes(shares.probabilities.others),
        ),
    )  # fmt: skip
    text = str(out.data, "utf-8")  # which is cut several times faster than parts are decoded
    if len(text) < len(out):
        _count_characters(out, ends)
    parts = iter([text[first:last] for first, last in pairwise(ends.tolist())])
    return zip(parts, parts, parts, parts, strict=True)


@njit(cache=True, nogil=True)
def _put(out: Bytes, at: int, text: Bytes, first: int, last: int) -> int:
    # Of places without a sign nobody asks whether they count from the end: a tenth of the time.
    for step in range(last - first):
        out[np.uint64(at + step)] = text[np.uint64(first + step)]
    return at + last - first


@njit(cache=True, nogil=True)
def _put_mark(out: Bytes, at: int, mark: Bytes) -> int:
    return _put(out, at, mark, 0, len(mark))


_OfSets = tuple[Places, Places, Columns, Bytes, Numbers, Bytes]
_OfShares = tuple[Places, Columns, Numbers, Bytes]


@njit(cache=True, nogil=True)
def _write(
    words: tuple[Bytes, Places],
    marks: tuple[_Marks, _Marks, _Marks, _Marks],
    sets: _OfSets,
    shares: _OfShares,
) -> tuple[Bytes, Places]:
    """Return the bytes of all texts, and where each begins."""
    told_set, told_share, stored_set, stored_share = marks
    doc_indptr, share_indptr, share_labels = sets[0], shares[0], shares[1]
    among = np.full(len(words[1]) - 1, -1, dtype=np.int64)  # where a label is in the shares
    unnamed = among.copy()
    out = np.empty(_size(words, marks, sets, shares), dtype=np.uint8)
    ends = np.zeros(4 * len(doc_indptr) - 3, dtype=np.int64)
    at = end = 0
    confidence, score, probability = 1, 1, 1  # behind the opening brackets
    for document in range(len(doc_indptr) - 1):
        first, last = share_indptr[document], share_indptr[document + 1]
        for place in range(first, last):
            among[share_labels[place]] = place - first
        at, _, _ = _put_sets(out, at, document, words, told_set, sets, unnamed, confidence, score)
        ends[end + 1] = at
        at, _ = _put_shares(out, at, document, words, told_share, shares, probability)
        ends[end + 2] = at
        at, confidence, score = _put_sets(
            out, at, document, words, stored_set, sets, among, confidence, score
        )
        ends[end + 3] = at
        at, probability = _put_shares(out, at, document, words, stored_share, shares, probability)
        ends[end + 4] = at
        end += 4
        for place in range(first, last):
            among[share_labels[place]] = -1
    return out[:at], ends


@njit(cache=True, nogil=True)
def _size(
    words: tuple[Bytes, Places],
    marks: tuple[_Marks, _Marks, _Marks, _Marks],
    sets: _OfSets,
    shares: _OfShares,
) -> int:
    """Return how many bytes there are at most."""
    told_set, told_share, stored_set, stored_share = marks
    starts = words[1]
    doc_indptr, set_indptr, labels, confidences, scores, other_scores = sets
    _, share_labels, probabilities, other_probabilities = shares
    longest = 2 * LONGEST * (len(scores) + len(probabilities))
    longest += 2 * (len(confidences) + len(other_scores) + len(other_probabilities))
    longest += 8 * len(doc_indptr) + len(set_indptr) * (_around(told_set) + _around(stored_set))
    longest += len(share_labels) * (_around(told_share) + _around(stored_share))
    for label in labels:  # or its place, which has fewer digits than there are labels, and a comma
        longest += 2 * (starts[label + 1] - starts[label] + LONGEST)
    for label in share_labels:
        longest += 2 * (starts[label + 1] - starts[label])
    return longest


@njit(cache=True, nogil=True)
def _around(marks: _Marks) -> int:
    size = 1  # a comma
    for mark in marks:
        size += len(mark)
    return size


@njit(cache=True, nogil=True)
def _put_sets(  # noqa: PLR0917 -- compiled code has no objects to group them
    out: Bytes,
    at: int,
    document: int,
    words: tuple[Bytes, Places],
    marks: _Marks,
    sets: _OfSets,
    among: Places,
    confidence: int,
    score: int,
) -> tuple[int, int, int]:
    """Put a document's candidates; labels that are ``among`` the shares by their place there."""
    text, starts = words
    doc_indptr, set_indptr, labels, confidences, scores, other_scores = sets
    out[at] = _OPEN
    at += 1
    for one in range(doc_indptr[document], doc_indptr[document + 1]):
        is_first = one == doc_indptr[document]
        if not is_first:
            out[at] = _COMMA
            at += 1
        at = _put_mark(out, at, marks[0])
        for place in range(set_indptr[one], set_indptr[one + 1]):
            if place > set_indptr[one]:
                out[at] = _COMMA
                at += 1
            label = labels[place]
            if is_first or among[label] < 0:
                at = _put(out, at, text, starts[label], starts[label + 1])
            else:
                at = put_whole(out, at, among[label])
        at = _put_mark(out, at, marks[1])
        at, confidence = put_written(out, at, confidences, confidence)
        at = _put_mark(out, at, marks[2])
        at, score = put_rounded(out, at, scores[one], other_scores, score)
        at = _put_mark(out, at, marks[3])
    out[at] = _CLOSE
    return at + 1, confidence, score


@njit(cache=True, nogil=True)
def _put_shares(  # noqa: PLR0917 -- as above
    out: Bytes,
    at: int,
    document: int,
    words: tuple[Bytes, Places],
    marks: _Marks,
    shares: _OfShares,
    probability: int,
) -> tuple[int, int]:
    """Put a document's marginals."""
    text, starts = words
    indptr, labels, probabilities, others = shares
    out[at] = _OPEN
    at += 1
    for place in range(indptr[document], indptr[document + 1]):
        if place > indptr[document]:
            out[at] = _COMMA
            at += 1
        at = _put_mark(out, at, marks[0])
        label = labels[place]
        at = _put(out, at, text, starts[label], starts[label + 1])
        at = _put_mark(out, at, marks[1])
        at, probability = put_rounded(out, at, probabilities[place], others, probability)
        at = _put_mark(out, at, marks[2])
    out[at] = _CLOSE
    return at + 1, probability


@njit(cache=True, nogil=True)
def _count_characters(out: Bytes, ends: Places) -> None:
    """Turn numbers of bytes into numbers of characters."""
    place = inside = 0
    for n in range(len(ends)):
        while place < ends[n]:
            inside += out[place] & 0xC0 == 0x80  # bytes inside a character begin with binary 10
            place += 1
        ends[n] -= inside
