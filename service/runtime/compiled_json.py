"""Writes the JSON of many predictions in one compiled pass, from numbers and words as bytes.

What callers are told and what is stored differ, see `setwise.service.stores.written`.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from setwise.service.domain.columns import Rows
from setwise.service.domain.predictions import WrittenScores
from setwise.service.runtime.compiled_text import (
    ROOM,
    Bytes,
    Eights,
    Places,
    Texts,
    eights,
    end_to_end,
    put,
)
from setwise.service.runtime.json_numbers import JsonNumbers

Columns = NDArray[np.int32]

_TOLD_SETS = ['"candidates":[', '{"labels":[', '],"confidence":', ',"score":', "},", "]"]
_STORED_SETS = ["[", "[[", "],", ",", "],", "]"]
"""What stands before all sets, before, between and behind the parts of one, and behind all."""

_TOLD_SHARES = [',"marginals":[', "},", "]"]
_STORED_SHARES = ["[", "],", "]"]
"""What stands before all marginals, behind one, and behind all."""

_FIRST_SET = ['"labels":[', '],"confidence":']

_MARKS = _TOLD_SETS + _STORED_SETS + _TOLD_SHARES + _STORED_SHARES + _FIRST_SET
_N_MARKS = len(_MARKS)
_AT_TOLD_SETS = 0
_AT_STORED_SETS = _AT_TOLD_SETS + len(_TOLD_SETS)
_AT_TOLD_SHARES = _AT_STORED_SETS + len(_STORED_SETS)
_AT_STORED_SHARES = _AT_TOLD_SHARES + len(_TOLD_SHARES)
_AT_FIRST_SET = _AT_STORED_SHARES + len(_STORED_SHARES)


class Words:
    """What is known of the JSON before there are numbers, in pieces that are as long as can be.

    Parameters
    ----------
    written : list of str
        A string of JSON for each label, in the order of the model's columns.

    Attributes
    ----------
    texts : Texts
        For each label how a list has it by name; then for each how one has it by place, how a
        marginal that is told begins, and how a stored one does; then the marks above.
    is_ascii : bool
        Every character takes one byte.
    """

    def __init__(self, written: list[str]) -> None:
        names, places = [f"{word}," for word in written], [f"{n}," for n in range(len(written))]
        told_shares = [f'{{"label":{word},"probability":' for word in written]
        stored_shares = [f"[{word}," for word in written]
        self.texts = end_to_end(names + places + told_shares + stored_shares + _MARKS)
        self.is_ascii = all(map(str.isascii, written))


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


def write_answers(words: Words, sets: Sets, shares: Shares) -> Rows[WrittenScores]:
    """Return what is written of each document; each has a candidate or more."""
    of_sets = *sets[:3], sets.confidences.texts, sets.scores.texts
    of_shares = *shares[:2], shares.probabilities.texts
    sizes = _sizes(words.texts, of_sets, of_shares)
    told, stored = [np.empty(size, dtype=np.uint8) for size in sizes]
    told_ends, stored_ends = _write(eights(told), eights(stored), words.texts, of_sets, of_shares)
    text = str(stored.data[: stored_ends[-1]], "utf-8")  # cut faster than its parts are decoded
    if not words.is_ascii:
        _count_characters(stored, stored_ends)
    view = told.data
    sent = [view[first:last] for first, last in pairwise(told_ends.tolist())]
    kept = [text[first:last] for first, last in pairwise(stored_ends.tolist())]
    return Rows(
        WrittenScores,
        first=sent[::2],
        told=sent[1::2],
        stored_candidates=kept[::2],
        stored_marginals=kept[1::2],
    )


_OfSets = tuple[Places, Places, Columns, Texts, Texts]
_OfShares = tuple[Places, Columns, Texts]


@njit(cache=True, nogil=True)
def _sizes(words: Texts, sets: _OfSets, shares: _OfShares) -> tuple[int, int]:
    """Return how many bytes are told and stored at most, each with the room behind them."""
    doc_indptr, set_indptr, labels, confidences, scores = sets
    _, share_labels, probabilities = shares
    n_labels = _n_labels(words)
    n_groups = len(doc_indptr) + len(set_indptr) + len(share_labels)
    size: int = ROOM + n_groups * (words[1][-1] - words[1][4 * n_labels])
    size += scores[1][-1] + probabilities[1][-1]
    told, stored = size + 2 * confidences[1][-1], size + confidences[1][-1]
    longest_place = _length(words, 2 * n_labels - 1)
    for label in labels:
        told += 2 * _length(words, label)
        stored += max(_length(words, label), longest_place)
    for label in share_labels:
        told += _length(words, 2 * n_labels + label)
        stored += _length(words, 3 * n_labels + label)
    return told, stored


@njit(cache=True, nogil=True)
def _n_labels(words: Texts) -> int:
    return (len(words[1]) - 1 - _N_MARKS) // 4


@njit(cache=True, nogil=True)
def _length(texts: Texts, which: int) -> int:
    return int(texts[1][which + 1] - texts[1][which])


@njit(cache=True, nogil=True)
def _write(
    told: Eights, stored: Eights, words: Texts, sets: _OfSets, shares: _OfShares
) -> tuple[Places, Places]:
    """Fill both, and return where each document's two texts begin in them, in bytes."""
    doc_indptr, share_indptr, share_labels = sets[0], shares[0], shares[1]
    n_labels = _n_labels(words)
    told_shares, stored_shares, marks = 2 * n_labels, 3 * n_labels, 4 * n_labels
    by_name = np.arange(n_labels)
    by_place = by_name.copy()  # of those among the shares
    told_ends = np.zeros(2 * len(doc_indptr) - 1, dtype=np.int64)
    stored_ends = told_ends.copy()
    at = kept = 0
    for document in range(len(doc_indptr) - 1):
        end = 2 * document
        at = _put_first(told, at, doc_indptr[document], words, marks + _AT_FIRST_SET, sets)
        told_ends[end + 1] = at
        at = _put_sets(told, at, document, words, marks + _AT_TOLD_SETS, by_name, sets)
        at = _put_shares(told, at, document, words, marks + _AT_TOLD_SHARES, told_shares, shares)
        told_ends[end + 2] = at
        first, last = share_indptr[document], share_indptr[document + 1]
        for place in range(first, last):
            by_place[share_labels[place]] = n_labels + place - first
        mark = marks + _AT_STORED_SETS
        kept = _put_sets(stored, kept, document, words, mark, by_place, sets)
        for place in range(first, last):
            by_place[share_labels[place]] = share_labels[place]
        stored_ends[end + 1] = kept
        mark = marks + _AT_STORED_SHARES
        kept = _put_shares(stored, kept, document, words, mark, stored_shares, shares)
        stored_ends[end + 2] = kept
    return told_ends, stored_ends


@njit(cache=True, nogil=True)
def _put_first(  # noqa: PLR0917 -- as above
    out: Eights, at: int, one: int, words: Texts, mark: int, sets: _OfSets
) -> int:
    """Put the labels and the confidence of a document's first candidate."""
    _, set_indptr, labels, confidences, _ = sets
    at = put(out, at, words, mark)
    for place in range(set_indptr[one], set_indptr[one + 1]):
        at = put(out, at, words, labels[place])
    at -= set_indptr[one + 1] > set_indptr[one]  # the last comma
    at = put(out, at, words, mark + 1)
    return put(out, at, confidences, one)


@njit(cache=True, nogil=True)
def _put_sets(  # noqa: PLR0917 -- as above
    out: Eights,
    at: int,
    document: int,
    words: Texts,
    mark: int,
    naming: Places,
    sets: _OfSets,
) -> int:
    """Put a document's candidates; of all but the first, labels as ``naming`` has them."""
    doc_indptr, set_indptr, labels, confidences, scores = sets
    first, last = doc_indptr[document], doc_indptr[document + 1]
    at = put(out, at, words, mark)
    for one in range(first, last):
        at = put(out, at, words, mark + 1)
        for place in range(set_indptr[one], set_indptr[one + 1]):
            label = labels[place]
            at = put(out, at, words, naming[label] if one > first else label)
        at -= set_indptr[one + 1] > set_indptr[one]
        at = put(out, at, words, mark + 2)
        at = put(out, at, confidences, one)
        at = put(out, at, words, mark + 3)
        at = put(out, at, scores, one)
        at = put(out, at, words, mark + 4)
    return put(out, at - 1, words, mark + 5)


@njit(cache=True, nogil=True)
def _put_shares(  # noqa: PLR0917 -- as above
    out: Eights,
    at: int,
    document: int,
    words: Texts,
    mark: int,
    beginnings: int,
    shares: _OfShares,
) -> int:
    """Put a document's marginals."""
    indptr, labels, probabilities = shares
    first, last = indptr[document], indptr[document + 1]
    at = put(out, at, words, mark)
    for place in range(first, last):
        at = put(out, at, words, beginnings + labels[place])
        at = put(out, at, probabilities, place)
        at = put(out, at, words, mark + 1)
    return put(out, at - (last > first), words, mark + 2)


@njit(cache=True, nogil=True)
def _count_characters(out: Bytes, ends: Places) -> None:
    """Turn numbers of bytes into numbers of characters."""
    place = inside = 0
    for n in range(len(ends)):
        while place < ends[n]:
            inside += out[place] & 0xC0 == 0x80  # bytes inside a character begin with binary 10
            place += 1
        ends[n] -= inside
