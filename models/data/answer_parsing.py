"""Reads what another model says of one document."""

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple, TypeGuard

import numpy as np
from numpy.typing import NDArray

from setwise.limits import LARGEST_SCORE, MOST_SET_LABELS, MOST_SETS
from setwise.models.data.document_error import DocumentError
from setwise.models.data.json_lines import quoted
from setwise.models.guarantees.checked import rounded_confidence
from setwise.spelling import escaped, misnamed, spelled, spelled_keys

MISSING = float("nan")
"""A number or a score that is not given."""


class ParsedAnswer(NamedTuple):
    """What another model says of one document, by name."""

    scores: Mapping[str, float]
    sets: tuple[tuple[tuple[str, ...], float], ...]  # with their scores, `MISSING` without one
    metadata: Mapping[str, object]
    bare: bool = False  # whether it is one set as ``labels``, not a list of candidates

    def labels(self) -> set[str]:
        """Return every label that the answer names."""
        return set(self.scores).union(*(labels for labels, _ in self.sets))


def parse_answer(document: Mapping[str, Any], place: int = 0) -> ParsedAnswer:
    """Return another model's answer from a JSON object.

    Parameters
    ----------
    document : mapping
        With ``"scores"`` (``{label: probability}``), ``"candidates"`` (``[{"labels": [...],
        "score": number?}]``) or ``"labels"``, a single set. Scores may come with either of the
        others. Other keys are ignored, except ``"metadata"``.
    place : int
        Number of the document from 0, for messages.

    Raises
    ------
    DocumentError
        If there is no answer, or one of another form.
    """
    if not any(key in document for key in ("scores", "candidates", "labels")):
        raise DocumentError(place, "", "it has no answer", _WANTED)
    if "candidates" in document and "labels" in document:
        raise DocumentError(
            place, "/labels", "there are candidates too", "give the set as one of the candidates"
        )
    scores: dict[str, float] = {}
    if "scores" in document:
        scores = _parsed_scores(document["scores"], place)
    sets: list[tuple[tuple[str, ...], float]] = []
    if "labels" in document:
        sets = [(_parsed_labels(document["labels"], place, "/labels"), MISSING)]
    elif "candidates" in document:
        sets = _parsed_candidates(document["candidates"], place)
    metadata = {} if document.get("metadata") is None else document["metadata"]
    if not isinstance(metadata, Mapping):
        raise DocumentError(place, "/metadata", "it is no object", "give an object")
    return ParsedAnswer(scores, tuple(sets), metadata, bare="labels" in document)


_WANTED = 'give "scores", "candidates" or "labels"'


def _parsed_scores(answer: object, place: int) -> dict[str, float]:
    if not isinstance(answer, Mapping):
        raise DocumentError(place, "/scores", "they are no object", "give a probability by label")
    if not answer:
        raise DocumentError(place, "/scores", "there are none", "give at least the likeliest")
    scores: dict[str, float] = {}
    for name, score in answer.items():
        # Negated so that NaN fails too.
        if not _is_number(score) or not 0.0 <= rounded_confidence(score) <= 1.0:
            path = f"/scores/{escaped(str(name))}"
            fault = f"{quoted(score)} is no probability"
            raise DocumentError(place, path, fault, "give a number from 0 to 1")
        scores[str(name)] = rounded_confidence(float(score))
    try:
        scores = spelled_keys(scores)
    except ValueError as error:
        raise DocumentError(
            place, "/scores", f"the label {error}", "give each label once"
        ) from error
    for label in scores:
        if why := misnamed(label):
            raise DocumentError(place, "/scores", f"the label {label[:60]!a} {why.fault}", why.cure)
    if "" in scores:
        raise DocumentError(place, "/scores", "a label is empty", "give its name")
    return scores


def _parsed_candidates(candidates: object, place: int) -> list[tuple[tuple[str, ...], float]]:
    if not isinstance(candidates, Sequence) or isinstance(candidates, str):
        raise DocumentError(place, "/candidates", "they are no list", "list objects with labels")
    if not 0 < len(candidates) <= MOST_SETS:
        fault = f"there are {len(candidates)}" if candidates else "the list is empty"
        raise DocumentError(place, "/candidates", fault, f"give 1 to {MOST_SETS} of them")
    sets = []
    for number, candidate in enumerate(candidates):
        path = f"/candidates/{number}"
        if not isinstance(candidate, Mapping) or "labels" not in candidate:
            raise DocumentError(place, path, "it has no labels", 'give an object with "labels"')
        unknown = [key for key in candidate if key not in {"labels", "score"}]
        if unknown:
            fault = f"unknown key {quoted(unknown[0])}"
            raise DocumentError(place, path, fault, "the keys are labels and score")
        score = candidate.get("score")
        if score is not None and not (_is_number(score) and abs(score) <= LARGEST_SCORE):
            fault = f"{quoted(score)} is no number within ±{LARGEST_SCORE:g}"
            raise DocumentError(place, f"{path}/score", fault, "give a number, or none")
        labels = _parsed_labels(candidate["labels"], place, f"{path}/labels")
        sets.append((labels, MISSING if score is None else float(score)))
    return sets


def _parsed_labels(labels: object, place: int, path: str) -> tuple[str, ...]:
    if not isinstance(labels, Sequence) or isinstance(labels, str):
        raise DocumentError(place, path, "they are no list", "give a list of labels, [] for none")
    if len(labels) > MOST_SET_LABELS:
        cure = f"give at most {MOST_SET_LABELS:,} in one set"
        raise DocumentError(place, path, f"there are {len(labels):,} labels", cure)
    distinct: dict[str, None] = {}
    for number, written in enumerate(labels):
        if not isinstance(written, str):
            fault = f"{quoted(written)} is no label"
            raise DocumentError(place, f"{path}/{number}", fault, "give labels as strings")
        name = spelled(written)
        if not name:
            raise DocumentError(place, f"{path}/{number}", "the label is empty", "give its name")
        if why := misnamed(name):
            fault = f"the label {name[:60]!a} {why.fault}"
            raise DocumentError(place, f"{path}/{number}", fault, why.cure)
        if name in distinct:
            fault = f"the label {quoted(name)} is given twice"
            raise DocumentError(place, f"{path}/{number}", fault, "give each label once")
        distinct[name] = None
    return tuple(distinct)


def metadata_numbers(answers: Sequence[ParsedAnswer], names: Sequence[str]) -> NDArray[np.float64]:
    """Return the named numbers of the answers' metadata, or `MISSING`."""
    numbers = np.full((len(answers), len(names)), MISSING)
    for place, answer in enumerate(answers):
        for column, name in enumerate(names):
            value = answer.metadata.get(name)
            if value is None:
                continue
            # Negated so that NaN fails too.
            if not (_is_number(value) and abs(value) <= LARGEST_SCORE):
                fault = f"{quoted(value)} is no number within ±{LARGEST_SCORE:g}"
                cure = "give a number, or leave it out"
                raise DocumentError(place, f"/metadata/{escaped(name)}", fault, cure)
            numbers[place, column] = value
    return numbers


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)
