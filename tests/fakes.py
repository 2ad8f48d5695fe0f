"""Small stand-ins for what services need beside a database: a clock, ids, models, calibrators."""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, BinaryIO

from setwise.service.domain.errors import CalibrationDamaged
from setwise.service.stores.database import OneClock

if TYPE_CHECKING:
    from setwise.models.calibration.calibration_rows import CalibrationRows
    from setwise.models.storage.recalibrations import StoredRecalibration
from setwise.service.domain import errors
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.predictions import (
    Candidate,
    Document,
    Marginal,
    ScoredSet,
    TermWeight,
)
from setwise.service.domain.recalibration import Calibration
from setwise.service.domain.routing.audits import Lottery

LOTTERY = Lottery(b"draws for tests")
START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class FakeClock(OneClock):
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime = START) -> None:
        self.instant = start

    def __call__(self) -> datetime:
        return self.instant

    def advance(self, **span: float) -> None:
        """Move on, or back, by ``timedelta(**span)``."""
        self.instant += timedelta(**span)


class FakeIds:
    """UUIDv7 strings that count up, the same ones in every run."""

    def __init__(self, first: int = 1) -> None:
        self._next = first
        self._lock = threading.Lock()

    def __call__(self) -> str:
        with self._lock:
            number = self._next
            self._next += 1
        return f"019b7a0b-0000-7000-8000-{number:012x}"


def scored_set(
    confidence: float = 0.9, *, labels: Sequence[str] = ("a", "b"), out_of_domain: bool = False
) -> ScoredSet:
    """Return an answer with three candidates, the first as given."""
    return ScoredSet(
        candidates=(
            Candidate(tuple(labels), confidence, confidence / 2),
            Candidate(("a",), confidence / 8, 0.1),
            Candidate((), 0.0, 1e-12),
        ),
        marginals=(Marginal("a", 0.98), Marginal("b", 0.7), Marginal("old-code", 0.125)),
        out_of_domain=out_of_domain,
        model_version="sha256:model",
        calibrator_version="sha256:calibrator",
    )


@dataclass
class FakePredictor:
    """Answers each document with what its text says: a number is the confidence.

    Other text gets 0.9, and ``unknown`` is out of domain.
    """

    version: str = "sha256:model"
    calibrator_version: str = "sha256:calibrator"
    own_calibrator_version: str = "sha256:calibrator"
    labels: Sequence[str] = ("a", "b", "c", "d")
    external: bool = False
    scored: int = 0

    def score(self, documents: Sequence[Document]) -> list[ScoredSet]:
        self.scored += len(documents)
        return [self._score(document.text or "") for document in documents]

    def explain(self, document: Document, labels: Sequence[str]) -> list[tuple[TermWeight, ...]]:
        """Say that the first word speaks for every label and the last one against it."""
        words = (document.text or "nothing").split()
        return [(TermWeight(words[0], 1.5), TermWeight(words[-1], -0.5)) for _ in labels]

    @staticmethod
    def _score(text: str) -> ScoredSet:
        try:
            return scored_set(float(text))
        except ValueError:
            return scored_set(out_of_domain=text == "unknown")


@dataclass
class FakePredictors:
    """A registry that serves one predictor, or none."""

    predictor: FakePredictor | None = field(default_factory=FakePredictor)
    fault: errors.ModelUnavailable = field(
        default_factory=lambda: errors.NoModel("No model is active.")
    )
    """Raised if there is no predictor."""

    def unload(self) -> FakePredictor | None:
        """Serve no predictor, as while one is loaded; return the one that served."""
        predictor, self.predictor = self.predictor, None
        self.fault = errors.ModelLoading("The model is being loaded.")
        return predictor

    def active(self) -> FakePredictor:
        if self.predictor is None:
            raise self.fault
        return self.predictor


@dataclass
class FakeLoader:
    """Loads every model but those whose version is ``damaged``."""

    predictor: FakePredictor = field(default_factory=FakePredictor)
    damaged: set[str] = field(default_factory=set)
    followed: int = 0

    def load(self, model: ModelVersion) -> FakePredictor:
        if model.version in self.damaged:
            raise errors.ModelDamaged(f"The model {model.location} cannot be loaded.")
        return replace(self.predictor, version=model.version)

    def follow(self) -> None:
        self.followed += 1


class FakeStore:
    """An artifact store in which every source is a sound artifact with itself as content."""

    def __init__(self, now: FakeClock, new_id: FakeIds) -> None:
        self._now = now
        self._new_id = new_id

    def add(self, source: str) -> ModelVersion:
        return ModelVersion(
            id=self._new_id(),
            version=f"sha256:{source}",
            location=source,
            summary={"method": "br-rerank", "n_labels": 4},
            active=False,
            created_at=self._now(),
        )

    def add_archive(self, archive: BinaryIO) -> ModelVersion:
        return self.add(archive.read().decode())


@dataclass
class FakePasswords:
    """Hashes that cost nothing, and a log of how many were checked."""

    version: int = 1
    checked: list[str | None] = field(default_factory=list)

    def place(self) -> AbstractContextManager[None]:
        return nullcontext()

    def hash(self, password: str) -> str:
        return f"{self.version}:{password[::-1]}"

    def verify(self, stored: str | None, password: str) -> bool:
        self.checked.append(stored)
        return stored is not None and stored.partition(":")[2] == password[::-1]

    def outdated(self, stored: str) -> bool:
        return not stored.startswith(f"{self.version}:")


@dataclass
class FakeCalibrators:
    """Keeps calibrators in memory, and tries them; those in ``damaged`` fail."""

    kept: "dict[str, StoredRecalibration]" = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)
    original: "CalibrationRows | None" = None

    def add_calibrator(self, kept: "StoredRecalibration") -> str:
        self.kept[kept.version] = kept
        return kept.version

    def load_calibrator(self, location: str) -> "StoredRecalibration":
        if location in self.damaged or location not in self.kept:
            raise CalibrationDamaged(f"The calibrator {location} cannot be loaded.")
        return self.kept[location]

    def original_rows(self, model: ModelVersion) -> "CalibrationRows | None":
        return self.original

    def load_calibration(self, model: ModelVersion, calibration: Calibration) -> FakePredictor:
        if calibration.location in self.damaged:
            raise CalibrationDamaged(f"The calibrator {calibration.id} cannot be loaded.")
        return FakePredictor(model.version, calibration.version)
