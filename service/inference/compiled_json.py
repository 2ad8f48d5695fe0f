"""Writes the JSON of many predictions in compiled passes, from numbers and words as bytes.

What callers are told and what is stored differ, see `service.use_cases.written`.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Places = NDArray[np.int64]


def _bytes(text: bytes) -> Bytes:
    return np.frombuffer(text, dtype=np.uint8)


_OPEN, _CLOSE, _COMMA = (ord(mark) for mark in "[],")
_ZERO, _TEN = ord("0"), 10

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
        self.lengths = np.array([len(word) for word in encoded], dtype=np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)


def write_sets(  # noqa: PLR0917 -- the parts of a `CandidateSets`, and its numbers
    words: Words,
    doc_indptr: Places,
    set_indptr: Places,
    labels: Places,
    confidences: bytes,
    scores: bytes,
) -> list[bytes]:
    """Return each document's candidates, as a JSON array of objects.

    Parameters
    ----------
    words : Words
    doc_indptr : int64 ndarray of shape (n + 1,)
        Where the sets of each document begin.
    set_indptr : int64 ndarray of shape (n_sets + 1,)
        Where the labels of each set begin.
    labels : int64 ndarray
        Columns of labels.
    confidences, scores : bytes
        JSON arrays of ``n_sets`` numbers.
    """
    none = np.zeros(len(doc_indptr), dtype=np.int64)
    return _sets(
        words, _TOLD_SET, doc_indptr, set_indptr, labels, confidences, scores, none, none[:0]
    )


def write_shares(
    words: Words, doc_indptr: Places, labels: Places, probabilities: bytes
) -> list[bytes]:
    """Return each document's marginals likewise; ``probabilities`` are as many as ``labels``."""
    return _shares(words, _TOLD_SHARE, doc_indptr, labels, probabilities)


def write_stored(  # noqa: PLR0917 -- as above, and those of the marginals
    words: Words,
    doc_indptr: Places,
    set_indptr: Places,
    labels: Places,
    confidences: bytes,
    scores: bytes,
    share_indptr: Places,
    share_labels: Places,
    probabilities: bytes,
) -> tuple[list[bytes], list[bytes]]:
    """Return each document's candidates, and its marginals, as they are stored.

    Parameters as above; ``share_indptr`` and ``share_labels`` belong to the marginals.
    """
    of_sets = doc_indptr, set_indptr, labels, confidences, scores
    return (
        _sets(words, _STORED_SET, *of_sets, share_indptr, share_labels),
        _shares(words, _STORED_SHARE, share_indptr, share_labels, probabilities),
    )


def _sets(  # noqa: PLR0917 -- as above
    words: Words,
    marks: _Marks,
    doc_indptr: Places,
    set_indptr: Places,
    labels: Places,
    confidences: bytes,
    scores: bytes,
    share_indptr: Places,
    share_labels: Places,
) -> list[bytes]:
    """Write sets; labels that are among the shares of a document, by their place there."""
    digits = len(str(len(words.lengths)))  # a place has no more
    size = len(confidences) + len(scores) + _around(marks) * (len(set_indptr) - 1)
    size += int((np.maximum(words.lengths[labels], digits) + 1).sum()) + 2 * len(doc_indptr)
    out, ends = np.empty(size, dtype=np.uint8), np.zeros(len(doc_indptr), dtype=np.int64)
    _write_sets(
        words.text, words.starts, marks, doc_indptr, set_indptr, labels,
        _bytes(confidences), _bytes(scores), share_indptr, share_labels, out, ends,
    )  # fmt: skip
    return _parts(out, ends)


def _shares(
    words: Words, marks: _Marks, doc_indptr: Places, labels: Places, probabilities: bytes
) -> list[bytes]:
    size = len(probabilities) + int(words.lengths[labels].sum())
    size += _around(marks) * len(labels) + 2 * len(doc_indptr)
    out, ends = np.empty(size, dtype=np.uint8), np.zeros(len(doc_indptr), dtype=np.int64)
    _write_shares(
        words.text, words.starts, marks, doc_indptr, labels, _bytes(probabilities), out, ends
    )
    return _parts(out, ends)


def _around(marks: _Marks) -> int:
    return sum(map(len, marks)) + 1  # and a comma


def _parts(out: Bytes, ends: Places) -> list[bytes]:
    written, places = out[: ends[-1]].tobytes(), ends.tolist()
    return [written[places[n] : places[n + 1]] for n in range(len(places) - 1)]


@njit(cache=True, nogil=True)
def _put(out: Bytes, at: int, text: Bytes, first: int, last: int) -> int:
    # Of places without a sign nobody asks whether they count from the end: a tenth of the time.
    for step in range(last - first):
        out[np.uint64(at + step)] = text[np.uint64(first + step)]
    return at + last - first


@njit(cache=True, nogil=True)
def _put_number(out: Bytes, at: int, numbers: Bytes, first: int) -> tuple[int, int]:
    """Put the number that begins at ``first``; return where to go on, and where the next begins."""
    digit = numbers[np.uint64(first)]
    while digit not in (_COMMA, _CLOSE):
        out[np.uint64(at)] = digit
        at += 1
        first += 1
        digit = numbers[np.uint64(first)]
    return at, first + 1


@njit(cache=True, nogil=True)
def _put_mark(out: Bytes, at: int, mark: Bytes) -> int:
    return _put(out, at, mark, 0, len(mark))


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
def _write_sets(  # noqa: PLR0917 -- as above
    text: Bytes,
    starts: Places,
    marks: _Marks,
    doc_indptr: Places,
    set_indptr: Places,
    labels: Places,
    confidences: Bytes,
    scores: Bytes,
    share_indptr: Places,
    share_labels: Places,
    out: Bytes,
    ends: Places,
) -> None:
    at, confidence, score = 0, 1, 1  # behind the opening brackets
    among = np.full(len(starts) - 1, -1, dtype=np.int64)  # where a label is in the shares
    for document in range(len(doc_indptr) - 1):
        first_share, last_share = share_indptr[document], share_indptr[document + 1]
        for place in range(first_share, last_share):
            among[share_labels[place]] = place - first_share
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
                    at = _put_place(out, at, among[label])
            at = _put_mark(out, at, marks[1])
            at, confidence = _put_number(out, at, confidences, confidence)
            at = _put_mark(out, at, marks[2])
            at, score = _put_number(out, at, scores, score)
            at = _put_mark(out, at, marks[3])
        out[at] = _CLOSE
        at += 1
        ends[document + 1] = at
        for place in range(first_share, last_share):
            among[share_labels[place]] = -1


@njit(cache=True, nogil=True)
def _write_shares(  # noqa: PLR0917 -- as above
    text: Bytes,
    starts: Places,
    marks: _Marks,
    doc_indptr: Places,
    labels: Places,
    probabilities: Bytes,
    out: Bytes,
    ends: Places,
) -> None:
    at, number = 0, 1
    for document in range(len(doc_indptr) - 1):
        out[at] = _OPEN
        at += 1
        for place in range(doc_indptr[document], doc_indptr[document + 1]):
            if place > doc_indptr[document]:
                out[at] = _COMMA
                at += 1
            at = _put_mark(out, at, marks[0])
            label = labels[place]
            at = _put(out, at, text, starts[label], starts[label + 1])
            at = _put_mark(out, at, marks[1])
            at, number = _put_number(out, at, probabilities, number)
            at = _put_mark(out, at, marks[2])
        out[at] = _CLOSE
        at += 1
        ends[document + 1] = at
