"""Another fit of the model, on its history and on what people decided since."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import comb
from pathlib import PurePosixPath
from typing import Any, Self

from setwise.service.domain.certification import AuditedPrediction
from setwise.service.domain.errors import FieldFault, InvalidRequest
from setwise.service.domain.recalibration import Noise

LEAST_DOCUMENTS = 200
"""Documents with labels needed for a fit."""

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
        return cls(stored.get("training_data"), stored.get("preset"), noise)


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
    serving: Sequence[AuditedPrediction], candidate: Sequence[AuditedPrediction]
) -> OnAudits:
    """Compare two models on the finished audits that speak of both.

    A lead's decision is the truth, or else the auditor's blind answer.
    """
    before = {document.id: document.wrong for document in serving}
    pairs = [
        (not before[document.id], not document.wrong)
        for document in candidate
        if not document.held_back
        and document.wrong is not None
        and before.get(document.id) is not None
    ]
    return OnAudits(
        audits=len(pairs),
        serving_right=sum(old for old, _ in pairs),
        candidate_right=sum(new for _, new in pairs),
        only_serving_right=sum(old and not new for old, new in pairs),
        only_candidate_right=sum(new and not old for old, new in pairs),
    )
