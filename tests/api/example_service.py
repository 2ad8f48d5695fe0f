"""The service whose examples are recorded: its time, ids and secrets are the same in every run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from unittest.mock import patch

from setwise.models.storage.recalibrations import StoredRecalibration
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.predictions import Candidate, Document, Marginal, ScoredSet
from setwise.service.settings import Settings
from tests.fakes import FakePredictor, FakeStore
from tests.kit.databases import Database
from tests.kit.edge import Service, build_service

CALIBRATOR, LEARNT = "90ab12cd34ef", "5ce1b0a94d77"
MODELS = {
    "3f9c0b7a1d2e": {"kind": "external", "method": "external", "n_labels": 4},
    "b81f6e02c9d4": {"kind": "text", "method": "br-rerank", "n_labels": 4},
}
"""Versions, the one that serves first, and summaries."""


@dataclass
class NotesModel(FakePredictor):
    """Knows pneumonia by the cough; its confidence is the number before it, if there is one."""

    version: str = "3f9c0b7a1d2e"
    calibrator_version: str = CALIBRATOR
    own_calibrator_version: str = CALIBRATOR
    labels: Sequence[str] = ("E11.9", "J18.9", "J45.9", "R50.9")
    external: bool = True
    least: float = 0.41
    """Confidence in a text without a cough."""

    def score(self, documents: Sequence[Document]) -> list[ScoredSet]:
        return [self._answer(document.text or "") for document in documents]

    def _answer(self, text: str) -> ScoredSet:
        labels, second, sure = ("J45.9",), ("J45.9", "R50.9"), self.least
        if "cough" in text:
            labels, second = ("J18.9", "R50.9"), ("J18.9",)
            sure = float(text.partition(" ")[0]) if text[0].isdigit() else 0.93
        return ScoredSet(
            candidates=(
                Candidate(labels, sure, sure / 1.5),
                Candidate(second, (1 - sure) / 2, (1 - sure) / 3),
            ),
            marginals=tuple(Marginal(label, sure) for label in labels),
            out_of_domain=False,
            model_version=self.version,
            calibrator_version=self.calibrator_version,
        )


def _add(store: FakeStore, version: str) -> ModelVersion:
    made_at = {"created_at": "2026-11-01T09:00:00+00:00", "calibrator_version": CALIBRATOR}
    summary = MODELS[version] | made_at
    return ModelVersion(store._new_id(), version, version, summary, False, store._now())


@contextmanager
def clinical_service() -> Iterator[Service]:
    """Serve the model for notes, until the end of the context."""
    numbers = count(1)
    with (
        patch("secrets.token_urlsafe", lambda *_: f"not-random-as-you-can-see-{next(numbers)}"),
        patch("secrets.token_bytes", lambda *_: b"not random, as you can see"),
        patch.object(FakeStore, "add", _add),
        patch.object(StoredRecalibration, "version", LEARNT),  # a digest of all digits
    ):
        service = build_service(Settings(), begin=Database())  # makes keys of its own
        service.clock.instant = datetime(2026, 11, 21, 9, tzinfo=UTC)
        service.predictors.predictor = NotesModel()
        service.loader.predictor = NotesModel(least=0.92)
        service.calibrators.load_calibration = lambda model, calibration: NotesModel(
            model.version, calibration.version
        )
        yield service
