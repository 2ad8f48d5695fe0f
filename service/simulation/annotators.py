"""Simulated people: what they answer when they read a document."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from setwise.service.domain.callers import Caller
from setwise.service.domain.reviews import ReviewTask
from setwise.service.simulation.streams import Labels


@dataclass(frozen=True)
class Annotator:
    """Somebody who errs at a known rate, as the noise model of the calibrators has it.

    Of a prediction that is right, a share ``noise`` is contradicted; of one that is wrong, a share
    ``miss_rate`` is agreed with. A wrong prediction is otherwise corrected, and put right but for
    the share ``noise``.

    Attributes
    ----------
    caller : Caller
        Who it is to the service.
    noise, miss_rate : float
        In [0, 1).
    seed : int
        With their name and the document it decides on each answer.
    """

    caller: Caller
    noise: float
    miss_rate: float
    seed: int

    def answer(self, task: ReviewTask, truth: Labels, labels: Sequence[str]) -> Labels:
        """Return the label set that they give to a task's document, whose truth is known."""
        predicted = task.prediction.scored.labels
        name = f"{self.seed}/{self.caller.name}/{task.prediction.name}/{task.kind}"
        draw = Random(name)  # noqa: S311 -- keeps no secret
        right = set(predicted) == set(truth)
        if not right and draw.random() < self.miss_rate:
            return predicted
        return _mistaken(predicted, truth, labels, draw) if draw.random() < self.noise else truth


def _mistaken(predicted: Labels, truth: Labels, labels: Sequence[str], draw: Random) -> Labels:
    """Return a set that is neither right nor predicted: a label too many or too few."""
    while len(labels) > 1:  # with one label there may be no third set
        label = draw.choice(truth) if truth and draw.random() < 0.5 else draw.choice(labels)
        found = set(truth) ^ {label}
        if found != set(predicted) and found != set(truth):
            return tuple(known for known in labels if known in found)
    return truth
