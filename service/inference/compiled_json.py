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
_LABELS = _bytes(b'{"labels":[')
_CONFIDENCE = _bytes(b'],"confidence":')
_SCORE = _bytes(b',"score":')
_LABEL = _bytes(b'{"label":')
_PROBABILITY = _bytes(b',"probability":')
_END = _bytes(b"}")

_PAIR, _TRIPLE = 4, 7
"""Brackets and commas of a pair and of a triple whose first member is an array."""

_AROUND_SET = len(_LABELS) + len(_CONFIDENCE) + len(_SCORE) + len(_END) + 1
_AROUND_SHARE = len(_LABEL) + len(_PROBABILITY) + len(_END) + 1


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
    size = len(confidences) + len(scores) + int((words.lengths[labels] + 1).sum())
    size += _AROUND_SET * (len(set_indptr) - 1) + 2 * len(doc_indptr)
    out, ends = np.empty(size, dtype=np.uint8), np.zeros(len(doc_indptr), dtype=np.int64)
    _write_sets(
        words.text, words.starts, doc_indptr, set_indptr, labels,
        _bytes(confidences), _bytes(scores), out, ends,
    )  # fmt: skip
    return _parts(out, ends)


def write_shares(
    words: Words, doc_indptr: Places, labels: Places, probabilities: bytes
) -> list[bytes]:
    """Return each document's marginals likewise; ``probabilities`` are as many as ``labels``."""
    size = len(probabilities) + int(words.lengths[labels].sum())
    size += _AROUND_SHARE * len(labels) + 2 * len(doc_indptr)
    out, ends = np.empty(size, dtype=np.uint8), np.zeros(len(doc_indptr), dtype=np.int64)
    _write_shares(words.text, words.starts, doc_indptr, labels, _bytes(probabilities), out, ends)
    return _parts(out, ends)


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
    n_documents = len(doc_indptr) - 1
    digits = len(str(len(words.lengths)))  # a place has no more
    size = len(confidences) + len(scores) + _TRIPLE * (len(set_indptr) - 1) + 2 * n_documents
    size += int((np.maximum(words.lengths[labels], digits) + 1).sum())
    sets, set_ends = np.empty(size, dtype=np.uint8), np.zeros(n_documents + 1, dtype=np.int64)
    size = len(probabilities) + int(words.lengths[share_labels].sum())
    size += _PAIR * len(share_labels) + 2 * n_documents
    shares, share_ends = np.empty(size, dtype=np.uint8), np.zeros(n_documents + 1, dtype=np.int64)
    _write_pairs(
        words.text, words.starts, share_indptr, share_labels, _bytes(probabilities),
        shares, share_ends,
    )  # fmt: skip
    _write_triples(
        words.text, words.starts, doc_indptr, set_indptr, labels,
        _bytes(confidences), _bytes(scores), share_indptr, share_labels, sets, set_ends,
    )  # fmt: skip
    return _parts(sets, set_ends), _parts(shares, share_ends)


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
def _write_sets(  # noqa: PLR0917 -- as above
    text: Bytes,
    starts: Places,
    doc_indptr: Places,
    set_indptr: Places,
    labels: Places,
    confidences: Bytes,
    scores: Bytes,
    out: Bytes,
    ends: Places,
) -> None:
    at, confidence, score = 0, 1, 1  # behind the opening brackets
    for document in range(len(doc_indptr) - 1):
        out[at] = _OPEN
        at += 1
        for one in range(doc_indptr[document], doc_indptr[document + 1]):
            if one > doc_indptr[document]:
                out[at] = _COMMA
                at += 1
            at = _put(out, at, _LABELS, 0, len(_LABELS))
            for place in range(set_indptr[one], set_indptr[one + 1]):
                if place > set_indptr[one]:
                    out[at] = _COMMA
                    at += 1
                label = labels[place]
                at = _put(out, at, text, starts[label], starts[label + 1])
            at = _put(out, at, _CONFIDENCE, 0, len(_CONFIDENCE))
            at, confidence = _put_number(out, at, confidences, confidence)
            at = _put(out, at, _SCORE, 0, len(_SCORE))
            at, score = _put_number(out, at, scores, score)
            at = _put(out, at, _END, 0, len(_END))
        out[at] = _CLOSE
        at += 1
        ends[document + 1] = at


@njit(cache=True, nogil=True)
def _write_shares(  # noqa: PLR0917 -- as above
    text: Bytes,
    starts: Places,
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
            at = _put(out, at, _LABEL, 0, len(_LABEL))
            label = labels[place]
            at = _put(out, at, text, starts[label], starts[label + 1])
            at = _put(out, at, _PROBABILITY, 0, len(_PROBABILITY))
            at, number = _put_number(out, at, probabilities, number)
            at = _put(out, at, _END, 0, len(_END))
        out[at] = _CLOSE
        at += 1
        ends[document + 1] = at


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
def _write_pairs(  # noqa: PLR0917 -- as above
    text: Bytes,
    starts: Places,
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
            out[at] = _OPEN
            label = labels[place]
            at = _put(out, at + 1, text, starts[label], starts[label + 1])
            out[at] = _COMMA
            at, number = _put_number(out, at + 1, probabilities, number)
            out[at] = _CLOSE
            at += 1
        out[at] = _CLOSE
        at += 1
        ends[document + 1] = at


@njit(cache=True, nogil=True)
def _write_triples(  # noqa: PLR0917 -- as above
    text: Bytes,
    starts: Places,
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
    among = np.full(len(starts) - 1, -1, dtype=np.int64)  # where a label is in the marginals
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
            out[at] = _OPEN
            out[at + 1] = _OPEN
            at += 2
            for place in range(set_indptr[one], set_indptr[one + 1]):
                if place > set_indptr[one]:
                    out[at] = _COMMA
                    at += 1
                label = labels[place]
                if is_first or among[label] < 0:
                    at = _put(out, at, text, starts[label], starts[label + 1])
                else:
                    at = _put_place(out, at, among[label])
            out[at] = _CLOSE
            out[at + 1] = _COMMA
            at, confidence = _put_number(out, at + 2, confidences, confidence)
            out[at] = _COMMA
            at, score = _put_number(out, at + 1, scores, score)
            out[at] = _CLOSE
            at += 1
        out[at] = _CLOSE
        at += 1
        ends[document + 1] = at
        for place in range(first_share, last_share):
            among[share_labels[place]] = -1
