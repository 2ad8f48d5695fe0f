"""What the services need of the layers above them, as Protocols."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, BinaryIO, Protocol

from setwise.service.domain.models import ModelVersion
from setwise.service.domain.predictions import Document, ScoredSet, TermWeight
from setwise.service.domain.recalibration import Calibration

if TYPE_CHECKING:
    from setwise.models.calibration.calibration_rows import CalibrationRows
    from setwise.models.storage.recalibrations import KeptRecalibration


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
        """Score documents together; raises `InvalidRequest` where one cannot be scored."""

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


class CalibratorStore(Protocol):
    """Keeps calibrators beside the artifacts of their models."""

    def add_calibrator(self, kept: "KeptRecalibration") -> str:
        """Keep a calibrator under the digest of its content; returns its location."""

    def load_calibrator(self, location: str) -> "KeptRecalibration":
        """Return a calibrator; raises `CalibrationDamaged`."""

    def original_rows(self, model: ModelVersion) -> "CalibrationRows | None":
        """Return the rows that a model was calibrated on; None if its artifact keeps none.

        Raises `ModelDamaged` if it cannot be read.
        """


class CalibratorLoader(Protocol):
    """Tries calibrators in this process."""

    def load_calibration(self, model: ModelVersion, calibration: Calibration) -> None:
        """Apply a calibrator once, beside the one that serves; raises `CalibrationDamaged`."""


class Sink(Protocol):
    """A file that is open for writing."""

    def write(self, content: bytes) -> int:
        """Write the next bytes and return how many they are."""


class FileStore(Protocol):
    """Keeps the files of jobs where every process of the service finds them."""

    def create(self, name: str) -> AbstractContextManager[Sink]:
        """Write a file that appears under its name, complete, when the block ends."""

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; raises `FileNotFoundError`."""

    def names(self, folder: str) -> Sequence[str]:
        """List the names in a folder, sorted; empty if the folder does not exist."""

    def remove(self, folder: str) -> None:
        """Remove a folder with everything in it, if it exists."""


class Progress(Protocol):
    """A running job reports to it; raises when the job should stop."""

    def __call__(self, progress: float, message: str = "") -> None:
        """Report the share that is done, in [0, 1], and what is done now."""

    def checkpoint(self, state: Mapping[str, object]) -> None:
        """Store the state from which another worker can resume."""


class Passwords(Protocol):
    """Slow hashes of passwords."""

    def hash(self, password: str) -> str:
        """Return what to store of a password."""

    def verify(self, stored: str | None, password: str) -> bool:
        """Tell whether a password is the stored one; without one, take as long and say no."""

    def outdated(self, stored: str) -> bool:
        """Tell whether what is stored was made with other parameters than today's."""
