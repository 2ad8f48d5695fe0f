"""What is known of recent documents: how sure the model was, and whether it was right."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from service.domain.rules import Rule, first_broken


@dataclass(frozen=True)
class Evidence:
    """One predicted document, without its content.

    Attributes
    ----------
    sendable : bool
        Something in the document was known to the model.
    sent : bool
        It left without a person.
    correct : bool or None
        Whether the set was right, by the last outcome or else the last review; None unknown.
    labels, metadata
        Empty unless they were asked for.
    """

    confidence: float
    sendable: bool
    sent: bool
    correct: bool | None
    created_at: datetime
    labels: Sequence[str] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)

    def would_be_sent(self, threshold: float | None, rules: Sequence[Rule] = ()) -> bool:
        """Tell whether a threshold and rules would have let the document go."""
        return (
            threshold is not None
            and self.sendable
            and self.confidence >= threshold
            and first_broken(rules, self.labels, self.metadata) is None
        )


def lowest_threshold(found: Sequence[Evidence], target: float, least: int) -> float | None:
    """Return the lowest confidence above which enough sets were right; None if there is none.

    Parameters
    ----------
    found : sequence of Evidence
        Those that rules and the model's domain would let go.
    target : float
        Share of the sets at or above the threshold that must be right, in (0, 1).
    least : int
        Where fewer sets than this were checked above a threshold, the mean confidence counts
        instead of the share that was right.
    """
    best = None
    seen = checked = right = 0
    total = 0.0
    ordered = sorted(found, key=lambda one: one.confidence, reverse=True)
    for place, one in enumerate(ordered):
        seen, total = seen + 1, total + one.confidence
        if one.correct is not None:
            checked, right = checked + 1, right + one.correct
        if place + 1 < len(ordered) and ordered[place + 1].confidence == one.confidence:
            continue  # a threshold sends all of the same confidence
        accuracy = right / checked if checked >= least else total / seen
        if accuracy >= target:
            best = one.confidence
    return best
