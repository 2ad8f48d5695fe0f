"""A model's answer as JSON: as callers are told, and as it is stored in half the room.

What is stored has no names of members, and names a label once. Marginals are pairs of a label and
its probability; candidates are triples of labels, confidence and score. The first candidate, which
queries read by itself, has its labels by name. Every other one has, for a label that is among the
marginals of the row, its place there, from 0:

    [["a",0.98],["b",0.7]]
    [[["a","b"],0.93,0.61],[[0],0.04,0.2],[[1,"c"],0.01,0.1]]

Rows never change, so that those of earlier versions hold what callers are told.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from setwise.service.domain.columns import Rows
from setwise.service.domain.predictions import Candidate, Marginal, ScoredSet, WrittenScores

StoredSet = Sequence[Any] | Mapping[str, Any]  # Any: as JSON has it
"""A candidate of a row: a triple, or an object in rows of earlier versions."""

StoredShare = Sequence[Any] | Mapping[str, Any]  # Any: as above
"""A marginal of a row, likewise a pair or an object."""


def compact_json(value: object) -> str:
    """Return ``value`` as JSON without white space.

    Raises
    ------
    ValueError
        For numbers that JSON lacks.
    """
    # Five times as fast as the standard library, and a prediction is stored with two such values.
    written = to_json(value, inf_nan_mode="constants").decode()
    if "NaN" in written or "Infinity" in written:  # a number that JSON lacks, or such a word
        json.dumps(value, allow_nan=False)
    return written


def write_scores(candidates: Sequence[Candidate], marginals: Sequence[Marginal]) -> WrittenScores:
    """Write a model's answer, which has more members than all the rest of a prediction."""
    sets = [
        {"labels": labels, "confidence": confidence, "score": score}
        for labels, confidence, score in candidates
    ]
    shares = [{"label": label, "probability": probability} for label, probability in marginals]
    places = {label: place for place, (label, _) in enumerate(marginals)}
    stored = [
        ([places.get(label, label) for label in labels] if rank else labels, confidence, score)
        for rank, (labels, confidence, score) in enumerate(candidates)
    ]
    first = {"labels": candidates[0].labels, "confidence": candidates[0].confidence}
    told = {"candidates": sets, "marginals": shares}
    return WrittenScores(
        compact_json(first)[1:-1].encode(),
        compact_json(told)[1:-1].encode(),
        compact_json(stored),
        compact_json([*marginals]),
    )


def written(scored: ScoredSet) -> WrittenScores:
    """Return the JSON of a model's answer, made now unless the model's adapter has made it."""
    return scored.written or write_scores(scored.candidates, scored.marginals)


def all_written(scored: Rows[ScoredSet]) -> Rows[WrittenScores]:
    """Return what `written` does, of each."""
    found = scored.column("written")
    return found if isinstance(found, Rows) else Rows.of(WrittenScores, [*map(written, scored)])


def read_scores(
    candidates: Sequence[StoredSet], marginals: Sequence[StoredShare]
) -> tuple[tuple[Candidate, ...], tuple[Marginal, ...]]:
    """Return the candidates and marginals of a row, of this version or an earlier one.

    >>> read_scores([[["a"], 0.9, 0.6], [[0, "b"], 0.1, 0.2]], [["a", 0.98]])[0][1]
    Candidate(labels=('a', 'b'), confidence=0.1, score=0.2)
    """
    shares = tuple(
        [
            Marginal(one["label"], one["probability"])
            if isinstance(one, Mapping)
            else Marginal(*one)
            for one in marginals
        ]
    )
    sets = []
    for one in candidates:
        if isinstance(one, Mapping):
            sets.append(Candidate(tuple(one["labels"]), one["confidence"], one["score"]))
            continue
        labels, confidence, score = one
        named = [shares[label].label if isinstance(label, int) else label for label in labels]
        sets.append(Candidate(tuple(named), confidence, score))
    return tuple(sets), shares


def labels_of_first(candidate: StoredSet) -> tuple[str, ...]:
    """Return the labels of the first candidate of a row, which need nothing else of it."""
    return tuple(candidate["labels"] if isinstance(candidate, Mapping) else candidate[0])
