"""JSON that is written once and used twice: in what is answered, and in what is stored."""

import json
from collections.abc import Sequence

from pydantic_core import to_json

from service.domain.predictions import Candidate, Marginal, ScoredSet, WrittenScores


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
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return written


def write_scores(candidates: Sequence[Candidate], marginals: Sequence[Marginal]) -> WrittenScores:
    """Write a model's answer, which has more members than all the rest of a prediction."""
    sets = [
        {"labels": labels, "confidence": confidence, "score": score}
        for labels, confidence, score in candidates
    ]
    shares = [{"label": label, "probability": probability} for label, probability in marginals]
    return WrittenScores(compact_json(sets), compact_json(shares))


def written(scored: ScoredSet) -> WrittenScores:
    """Return the JSON of a model's answer, made now unless the model's adapter has made it."""
    return scored.written or write_scores(scored.candidates, scored.marginals)
