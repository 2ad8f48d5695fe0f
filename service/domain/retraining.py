"""Another fit of the model, on its history and on what people decided since."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil, comb, exp, log, sqrt
from pathlib import PurePosixPath
from typing import Any, Self

from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.evidence import CheckedDocument
from setwise.service.domain.recalibration import Noise
from setwise.shown import Probability, Shown

LEAST_DOCUMENTS = 200
"""Documents with labels needed for a fit."""

FIRST_TEXTS = 60
"""Answers needed for a model of texts; the first one is then trained by itself."""

GROWTH = 1.4
"""The next one is trained when there are so many times as many answers."""

LEAST_MARKED = 10
"""With fewer marked documents, nothing is said about how good a model is."""

FROM_ANSWERS = 400
"""From so many answers on, what the next ones will bring can be foretold."""

NEXT_ANSWERS = 200

_USUAL_ERROR = 0.011
"""Usual error of the foretold gain at `FROM_ANSWERS`; it falls with the root of the answers."""

_PROBABLY = 1.3
"""Errors around the foretold gain in which it probably lies: nine times in ten it is no higher."""

RARE = 10
"""A label with fewer examples is hardly learnt."""


def next_at(answers: int | None) -> int:
    """Return at how many answers the next model is trained.

    ``answers``: Those at the last one; None if there was none.

    >>> next_at(None), next_at(60), next_at(84)
    (60, 84, 118)
    """
    return FIRST_TEXTS if answers is None else max(ceil(round(GROWTH * answers, 6)), FIRST_TEXTS)


@dataclass(frozen=True)
class Measured(Shown):
    """How often a model of the answers is right, on marked documents that it did not learn from."""

    answers: int
    """Documents that the model learnt from."""
    marked: int
    """Those of them that were marked on arrival: each was judged by a fit without it."""
    right: int
    """Marked documents whose most confident set is right."""
    low: Probability
    """Exact bounds of the share of right sets, at 95 %."""
    high: Probability
    rank: Probability
    """Mean of one divided by the place of the right set among the suggested ones."""
    frequent_rank: Probability
    """The same of the most frequent sets, in their place."""

    @property
    def helps(self) -> bool:
        """Whether it ranks better than the most frequent sets."""
        return self.marked >= LEAST_MARKED and self.rank > self.frequent_rank


@dataclass(frozen=True)
class Gain(Shown):
    """What more answers will probably bring."""

    answers: int
    """So many more."""
    low: float
    """Rise of the share of right sets."""
    high: float


def foretell(curve: Sequence[Measured]) -> Gain | None:
    """Return what the next answers probably bring; None before it can be told.

    A power law through the share of wrong sets, weighted by the marked documents.

    >>> def at(answers, right):
    ...     return Measured(answers, answers // 2, right, 0, 1, 0.5, 0.1)
    >>> foretell([at(200, 70), at(392, 149)]) is None
    True
    >>> gain = foretell([at(200, 70), at(392, 149), at(800, 320)])
    >>> round(gain.low, 3), round(gain.high, 3)
    (0.002, 0.022)
    """
    points = [
        (log(each.answers), log((each.marked - each.right + 0.5) / (each.marked + 1)), each.marked)
        for each in curve
        if each.marked
    ]
    last = max((each.answers for each in curve), default=0)
    total = sum(weight for *_, weight in points)
    if last < FROM_ANSWERS or len({x for x, *_ in points}) < 3:
        return None
    mean_x = sum(weight * x for x, _, weight in points) / total
    mean_y = sum(weight * y for _, y, weight in points) / total
    spread = sum(weight * (x - mean_x) ** 2 for x, _, weight in points)
    slope = sum(weight * (x - mean_x) * (y - mean_y) for x, y, weight in points) / spread

    def wrong(answers: int) -> float:
        return exp(mean_y + slope * (log(answers) - mean_x))

    gain = max(wrong(last) - wrong(last + NEXT_ANSWERS), 0.0)
    error = _PROBABLY * _USUAL_ERROR * sqrt(FROM_ANSWERS / last)
    return Gain(NEXT_ANSWERS, max(gain - error, 0.0), gain + error)


@dataclass(frozen=True)
class RareLabel(Shown):
    """A label with few examples."""

    label: str
    documents: int
    """Answers that gave it."""


@dataclass(frozen=True)
class Learning(Shown):
    """How far people and the models of their answers have come."""

    answers: int
    """Documents that people have answered."""
    next_at: int | None
    """Number of answers at which the next model is trained by itself; null if none will be."""
    rare: tuple[RareLabel, ...]
    """Labels of fewer than ten answers, the rarest first."""
    curve: tuple[Measured, ...]
    """The models so far, oldest first; those of other documents than the answers are left out."""
    gain: Gain | None
    """What the next answers will probably bring; null before 400 answers."""


PRESETS = ("fast", "best", "paper")


@dataclass(frozen=True)
class Retrain:
    """What to learn from, and how."""

    training_data: str | None = None
    """Name of a file of earlier training documents in the configured folder."""
    preset: str | None = None
    """None is that of the model that serves."""
    noise: Noise = Noise.NONE
    """Which error rates of reviewers to correct for."""
    texts: bool = False
    """Whether to make a model of texts, whatever serves; by default it reads what that reads."""

    def check(self) -> None:
        """Raise `InvalidRequest` if a value is out of range."""
        faults = []
        if self.preset is not None and self.preset not in PRESETS:
            faults.append(FieldFault("/preset", f"must be one of {', '.join(PRESETS)}"))
        if self.training_data is not None:
            path = PurePosixPath(self.training_data)
            plain = path.parts and "\0" not in self.training_data and "\\" not in self.training_data
            if not plain or ".." in path.parts or path.is_absolute():
                faults.append(
                    FieldFault("/training_data", "must name a file in the folder of training data")
                )
        if faults:
            raise InvalidRequest("No model can be trained like this.", faults)

    def to_json(self) -> dict[str, object]:
        """Return the options as a job stores them."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:  # Any: JSON, as `to_json` returns it
        """Read the options of a job."""
        noise = Noise(stored.get("noise", Noise.NONE))
        texts = bool(stored.get("texts"))
        return cls(stored.get("training_data"), stored.get("preset"), noise, texts)


@dataclass(frozen=True)
class OnAudits:
    """Two models on the same audits, which taught neither."""

    audits: int = 0
    """Audited documents that both models scored."""
    serving_right: int = 0
    candidate_right: int = 0
    only_serving_right: int = 0
    only_candidate_right: int = 0

    @property
    def p_value(self) -> float | None:
        """Probability of so many wins of the candidate if neither is better; None without any.

        >>> round(OnAudits(100, 70, 80, 5, 15).p_value, 4)
        0.0207
        """
        n = self.only_serving_right + self.only_candidate_right
        if n == 0:
            return None
        return sum(comb(n, k) for k in range(self.only_candidate_right, n + 1)) / (1 << n)

    def sentence(self) -> str:
        """Return the comparison in words.

        >>> OnAudits(100, 70, 80, 5, 15).sentence()
        'of 100 audited sets it gets 80 right, the model that serves 70 (p = 0.021)'
        """
        if self.audits == 0:
            return "no audit compares it with the model that serves yet"
        chance = "" if self.p_value is None else f" (p = {self.p_value:.3f})"
        return (
            f"of {self.audits:,} audited sets it gets {self.candidate_right:,} right, the model "
            f"that serves {self.serving_right:,}{chance}"
        )

    def to_json(self) -> dict[str, object]:
        """Return the counts and the p-value."""
        return {**asdict(self), "p_value": self.p_value}


def compare_on_audits(
    serving: Sequence[CheckedDocument], candidate: Sequence[CheckedDocument]
) -> OnAudits:
    """Compare two models on the finished audits that speak of both.

    A lead's decision is the truth, or else the auditor's blind answer.
    """
    before = {document.id: document.found_wrong for document in serving}
    pairs = [
        (not before[document.id], not document.found_wrong)
        for document in candidate
        if not document.held_back
        and document.found_wrong is not None
        and before.get(document.id) is not None
    ]
    return OnAudits(
        audits=len(pairs),
        serving_right=sum(old for old, _ in pairs),
        candidate_right=sum(new for _, new in pairs),
        only_serving_right=sum(old and not new for old, new in pairs),
        only_candidate_right=sum(new and not old for old, new in pairs),
    )
