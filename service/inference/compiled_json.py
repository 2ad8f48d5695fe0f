"""Writes the JSON of many predictions in one compiled pass, from numbers and words as bytes.

What callers are told and what is stored differ, see `service.use_cases.written`.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from service.inference.json_numbers import Bytes, JsonNumbers, Places

Columns = NDArray[np.int32]


def _bytes(text: bytes) -> Bytes:
    return np.frombuffer(text, dtype=np.uint8)


_OPEN, _CLOSE, _COMMA, _ZERO = (ord(mark) for mark in "[],0")
_TEN = 10

_Marks = tuple[Bytes, ...]
_TOLD_SET = tuple(map(_bytes, (b'{"labels":[', b'],"confidence":', b',"score":', b"}")))
_STORED_SET = tuple(map(_bytes, (b"[[", b"],", b",", b"]")))
_TOLD_SHARE = tuple(map(_bytes, (b'{"label":', b',"probability":', b"}")))
_STORED_SHARE = tuple(map(_bytes, (b"[", b",", b"]")))
"""What stands before, between and behind the parts of a set, and of a marginal."""

_Texts = tuple[Bytes, Places]
"""Texts behind each other, and where each begins."""


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
        self.is_ascii = all(map(str.isascii, written))
        self.starts = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(word) for word in encoded], out=self.starts[1:])


class Sets(NamedTuple):
    """Candidates.

    Attributes
    ----------
    doc_indptr : int64 ndarray of shape (n + 1,)
        Where the sets of each document begin.
    set_indptr : int64 ndarray of shape (n_sets + 1,)
        Where the labels of each set begin.
    labels : int32 ndarray
        Columns of labels.
    confidences, scores : JsonNumbers
        ``n_sets`` of each.
    """

    doc_indptr: Places
    set_indptr: Places
    labels: Columns
    confidences: JsonNumbers
    scores: JsonNumbers


class Shares(NamedTuple):
    """Marginals: where those of each document begin, their labels and probabilities."""

    indptr: Places
    labels: Columns
    probabilities: JsonNumbers


def write_answers(words: Words, sets: Sets, shares: Shares) -> Iterator[tuple[str, str, str, str]]:
    """Yield each document's candidates and marginals as told, then both as stored."""
    out, ends = _write(
        (words.text, words.starts),
        (_TOLD_SET, _TOLD_SHARE, _STORED_SET, _STORED_SHARE),
        (*sets[:3], sets.confidences[1:], sets.scores[1:]),
        (*shares[:2], shares.probabilities[1:]),
        words.is_ascii,
    )
    text = str(out.data, "utf-8")  # which is cut several times faster than parts are decoded
    parts = iter([text[first:last] for first, last in pairwise(ends.tolist())])
    return zip(parts, parts, parts, parts, strict=True)


_OfSets = tuple[Places, Places, Columns, _Texts, _Texts]
_OfShares = tuple[Places, Columns, _Texts]


@njit(cache=True, nogil=True)
def _write(
    words: _Texts,
    marks: tuple[_Marks, _Marks, _Marks, _Marks],
    sets: _OfSets,
    shares: _OfShares,
    is_ascii: bool,
) -> tuple[Bytes, Places]:
    """Return the bytes of all texts, and where each begins, in characters."""
    told_set, told_share, stored_set, stored_share = marks
    doc_indptr, share_indptr, share_labels = sets[0], shares[0], shares[1]
    among = np.full(len(words[1]) - 1, -1, dtype=np.int64)  # where a label is in the shares
    unnamed = among.copy()
    out = np.empty(_size(words, marks, sets, shares), dtype=np.uint8)
    ends = np.zeros(4 * len(doc_indptr) - 3, dtype=np.int64)
    at = end = 0
    for document in range(len(doc_indptr) - 1):
        first, last = share_indptr[document], share_indptr[document + 1]
        at = _put_sets(out, at, document, words, told_set, sets, unnamed)
        ends[end + 1] = at
        at = _put_shares(out, at, document, words, told_share, shares)
        ends[end + 2] = at
        for place in range(first, last):
            among[share_labels[place]] = place - first
        at = _put_sets(out, at, document, words, stored_set, sets, among)
        for place in range(first, last):
            among[share_labels[place]] = -1
        ends[end + 3] = at
        at = _put_shares(out, at, document, words, stored_share, shares)
        ends[end + 4] = at
        end += 4
    if not is_ascii:
        _count_characters(out, ends)
    return out[:at], ends


@njit(cache=True, nogil=True)
def _size(
    words: _Texts,
    marks: tuple[_Marks, _Marks, _Marks, _Marks],
    sets: _OfSets,
    shares: _OfShares,
) -> int:
    """Return how many bytes there are at most."""
    told_set, told_share, stored_set, stored_share = marks
    starts = words[1]
    doc_indptr, set_indptr, labels, confidences, scores = sets
    _, share_labels, probabilities = shares
    size = 2 * (len(confidences[0]) + len(scores[0]) + len(probabilities[0]))
    size += 8 * len(doc_indptr) + len(set_indptr) * (_around(told_set) + _around(stored_set))
    size += len(share_labels) * (_around(told_share) + _around(stored_share))
    digits = 1
    while len(starts) >= _TEN**digits:
        digits += 1
    for label in labels:  # or its place, which has no more digits, and a comma
        size += 2 * (max(starts[label + 1] - starts[label], digits) + 1)
    for label in share_labels:
        size += 2 * (starts[label + 1] - starts[label])
    return size


@njit(cache=True, nogil=True)
def _around(marks: _Marks) -> int:
    size = 1  # a comma
    for mark in marks:
        size += len(mark)
    return size


@njit(cache=True, nogil=True)
def _put(out: Bytes, at: int, text: Bytes, first: int, last: int) -> int:
    # Of places without a sign nobody asks whether they count from the end: a tenth of the time.
    for step in range(last - first):
        out[np.uint64(at + step)] = text[np.uint64(first + step)]
    return at + last - first


@njit(cache=True, nogil=True)
def _put_mark(out: Bytes, at: int, mark: Bytes) -> int:
    return _put(out, at, mark, 0, len(mark))


@njit(cache=True, nogil=True)
def _put_text(out: Bytes, at: int, texts: _Texts, which: int) -> int:
    return _put(out, at, texts[0], texts[1][which], texts[1][which + 1])


@njit(cache=True, nogil=True)
def _put_place(out: Bytes, at: int, place: int) -> int:
    """Put a whole number that is not negative."""
    least = 1
    while place // least >= _TEN:
        least *= _TEN
    while least > 0:
        out[at] = _ZERO + place // least % _TEN
        at += 1
        least //= _TEN
    return at


@njit(cache=True, nogil=True)
def _put_sets(  # noqa: PLR0917 -- compiled code has no objects to group them
    out: Bytes,
    at: int,
    document: int,
    words: _Texts,
    marks: _Marks,
    sets: _OfSets,
    among: Places,
) -> int:
    """Put a document's candidates; labels that are ``among`` the shares by their place there."""
    doc_indptr, set_indptr, labels, confidences, scores = sets
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
                at = _put_text(out, at, words, label)
            else:
                at = _put_place(out, at, among[label])
        at = _put_mark(out, at, marks[1])
        at = _put_text(out, at, confidences, one)
        at = _put_mark(out, at, marks[2])
        at = _put_text(out, at, scores, one)
        at = _put_mark(out, at, marks[3])
    out[at] = _CLOSE
    return at + 1


@njit(cache=True, nogil=True)
def _put_shares(  # noqa: PLR0917 -- as above
    out: Bytes, at: int, document: int, words: _Texts, marks: _Marks, shares: _OfShares
) -> int:
    """Put a document's marginals."""
    indptr, labels, probabilities = shares
    out[at] = _OPEN
    at += 1
    for place in range(indptr[document], indptr[document + 1]):
        if place > indptr[document]:
            out[at] = _COMMA
            at += 1
        at = _put_mark(out, at, marks[0])
        at = _put_text(out, at, words, labels[place])
        at = _put_mark(out, at, marks[1])
        at = _put_text(out, at, probabilities, place)
        at = _put_mark(out, at, marks[2])
    out[at] = _CLOSE
    return at + 1


@njit(cache=True, nogil=True)
def _count_characters(out: Bytes, ends: Places) -> None:
    """Turn numbers of bytes into numbers of characters."""
    place = inside = 0
    for n in range(len(ends)):
        while place < ends[n]:
            inside += out[place] & 0xC0 == 0x80  # bytes inside a character begin with binary 10
            place += 1
        ends[n] -= inside
