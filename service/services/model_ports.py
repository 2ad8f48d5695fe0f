"""What is needed of models from the world outside: what predicts, and what is stored."""

from collections.abc import Sequence
from datetime import datetime
from typing import BinaryIO, Protocol

from setwise.service.domain.comparison import Comparison, Shadow, Tally
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.paging import Page
from setwise.service.domain.predictions import Document, Prediction, ScoredSet, TermWeight


class Predictor(Protocol):
    """A loaded model."""

    @property
    def version(self) -> str: ...

    @property
    def calibrator_version(self) -> str:
        """Of the calibrator whose confidences it gives now."""

    @property
    def own_calibrator_version(self) -> str:
        """Of the calibrator that the model was trained with."""

    @property
    def labels(self) -> Sequence[str]:
        """Every label that the model can predict."""

    def score(self, documents: Sequence[Document]) -> Sequence[ScoredSet]:
        """Score documents together; by column, as `Rows`, saves whoever asks the most time.

        Raises `InvalidRequest` where one cannot be scored.
        """

    def seen(self, sets: Sequence[Sequence[str]]) -> list[bool]:
        """Tell of each label set whether a training document has it; True if that is unknown."""

    def explain(self, document: Document, labels: Sequence[str]) -> list[tuple[TermWeight, ...]]:
        """Return what the document's terms add to each label, weightiest first.

        Raises `InvalidRequest` where the document cannot be scored or a label is unknown.
        """


class PredictorSource(Protocol):
    """Hands out the predictor that serves now."""

    def active(self) -> Predictor:
        """Return it; raises `ModelUnavailable` when there is none."""


class ModelLoader(Protocol):
    """Loads registered models beside the one that serves."""

    def load(self, model: ModelVersion) -> Predictor:
        """Return the model, ready to predict; raises `ModelDamaged` when it cannot be."""

    def follow(self) -> None:
        """Let this process serve at once what the database says; others follow by themselves."""


class ArtifactStore(Protocol):
    """Keeps model artifacts, in a folder or in an object store."""

    def add(self, source: str) -> ModelVersion:
        """Verify the artifact folder ``source``, keep a copy and describe it (not yet recorded).

        Raises `InvalidRequest` when it is not a sound artifact.
        """

    def add_archive(self, archive: BinaryIO) -> ModelVersion:
        """Add an artifact folder that comes as a ZIP file, as `add` does."""


class Models(Protocol):
    """Registered artifacts."""

    def add(self, model: ModelVersion) -> None:
        """Record one; raises `DuplicateModel` for content that is registered already."""

    def get(self, model_id: str) -> ModelVersion | None: ...

    def active(self) -> ModelVersion | None: ...

    def previous(self) -> ModelVersion | None:
        """Return the model that was active before the present one became so."""

    def all(self) -> list[ModelVersion]:
        """List newest first."""

    def activate(self, model_id: str, now: datetime, activation_id: str) -> None: ...


class Comparisons(Protocol):
    """Candidates beside the model that serves."""

    def begin_shadow(self, shadow: Shadow) -> None:
        """Store the present shadow; raises `ShadowTaken` when there is one."""

    def shadow(self) -> Shadow | None:
        """Return the present one."""

    def end_shadow(self, model_id: str, now: datetime) -> bool:
        """End the present shadow; False unless it is this model."""

    def add_all(self, comparisons: Sequence[Comparison]) -> None:
        """Store what is not stored yet of a model and a prediction."""

    def tally(self, model_id: str) -> Tally: ...

    def differing(
        self, model_id: str, *, routes_only: bool, after: str | None, limit: int
    ) -> Page[tuple[Comparison, Prediction]]:
        """List, newest first, where a candidate differs; by id of the comparison."""
