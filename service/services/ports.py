"""Protocols that services need from the layers above them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar

from setwise.service.domain.models import ModelVersion
from setwise.service.domain.predictions import Document, Refused, ScoredSet, TermWeight
from setwise.service.domain.recalibration import Calibration

if TYPE_CHECKING:
    from setwise.models.calibration.calibration_rows import CalibrationRows
    from setwise.models.storage.recalibrations import StoredRecalibration

Shared = TypeVar("Shared")
Own = TypeVar("Own")
Result = TypeVar("Result")


class Predictor(Protocol):
    """A loaded model."""

    @property
    def version(self) -> str: ...

    @property
    def calibrator_version(self) -> str:
        """The version of the calibrator in use."""

    @property
    def own_calibrator_version(self) -> str:
        """The version of the calibrator that the model was trained with."""

    @property
    def labels(self) -> Sequence[str]:
        """All labels that the model can predict."""

    @property
    def external(self) -> bool:
        """Whether it reads another model's answers."""

    def score(self, documents: Sequence[Document]) -> Sequence[ScoredSet | Refused]:
        """Score documents together; return the result of each, in order.

        One that cannot be scored does not affect the others. A model that does not read answers
        leaves them out of account.
        """

    def explain(self, document: Document, labels: Sequence[str]) -> list[tuple[TermWeight, ...]]:
        """Return the weights of the document's terms for each label, largest first.

        Raises `InvalidRequest` if the document cannot be scored or a label is unknown.
        """


class PredictorSource(Protocol):
    """Provides the active predictor."""

    def active(self) -> Predictor:
        """Return the active predictor; raises `ModelUnavailable` without one."""


class ModelLoader(Protocol):
    """Loads registered models beside the active one."""

    def load(self, model: ModelVersion) -> Predictor:
        """Return the loaded model; raises `ModelDamaged` if it cannot load."""

    def follow(self) -> None:
        """Serve the active model now; other processes follow by themselves."""


class ArtifactStore(Protocol):
    """Stores model artifacts, in a folder or in an object store."""

    def add(self, source: str) -> ModelVersion:
        """Verify the artifact folder ``source``, copy it and describe it.

        The model is not yet registered. Raises `InvalidRequest` if the artifact is invalid.
        """

    def add_archive(self, archive: BinaryIO) -> ModelVersion:
        """Add an artifact folder from a ZIP file, as `add` does."""


class CalibratorStore(Protocol):
    """Stores calibrators beside the artifacts of their models."""

    def add_calibrator(self, recalibration: "StoredRecalibration") -> str:
        """Store a calibrator under the digest of its content; return its location."""

    def load_calibrator(self, location: str) -> "StoredRecalibration":
        """Return a calibrator; raises `CalibrationDamaged`."""

    def original_rows(self, model: ModelVersion) -> "CalibrationRows | None":
        """Return the rows that a model was calibrated on; None without any.

        Raises `ModelDamaged` if it cannot be read.
        """


class CalibratorLoader(Protocol):
    """Loads calibrators in this process."""

    def load_calibration(self, model: ModelVersion, calibration: Calibration) -> Predictor:
        """Return the model with a calibrator, once it predicts; raises `CalibrationDamaged`."""


class Sink(Protocol):
    """A file open for writing."""

    def write(self, content: bytes) -> int:
        """Write the next bytes and return their number."""


class FileStore(Protocol):
    """Stores the files of jobs for all processes of the service."""

    def create(self, name: str, *, replacing: str | None = None) -> AbstractContextManager[Sink]:
        """Return a context for writing a file that appears complete.

        ``replacing``: The version of the file that it replaces.
        """

    def open(self, name: str) -> BinaryIO:
        """Open a file for reading; raises `FileNotFoundError`."""

    def version(self, name: str) -> str | None:
        """Return what changes with a file's content; None without the file."""

    def names(self, folder: str) -> Sequence[str]:
        """Return the sorted names in a folder; empty without the folder."""

    def tidy(self, folder: str) -> None:
        """Delete what writers left in a folder that died before their file was complete."""

    def remove(self, folder: str) -> None:
        """Delete a folder and its content, if it exists."""


class Progress(Protocol):
    """Receives a job's progress; raises if the job should stop."""

    def __call__(self, progress: float, message: str = "") -> None:
        """Report the finished share, in [0, 1], and the current step."""

    def checkpoint(self, state: Mapping[str, object]) -> None:
        """Store the state from which another worker can resume."""


class Workers(Protocol):
    """Runs calls, in this process or in others."""

    def ahead(self) -> int:
        """Return the number of calls to begin before the first result is needed."""

    def begin(
        self, function: Callable[[Shared, Own], Result], shared: Shared, part: Own
    ) -> Callable[[], Result]:
        """Begin a call; return a function that waits for its result.

        All can be pickled; ``shared`` is seldom another one than before.
        """


class Passwords(Protocol):
    """Slow hashes of passwords."""

    def place(self) -> AbstractContextManager[None]:
        """Hold a place in the queue; raises `TooManyRequests` at once if it is full."""

    def hash(self, password: str) -> str:
        """Return the hash of a password to store."""

    def verify(self, stored: str | None, password: str) -> bool:
        """Return whether a password matches.

        Without a stored one, take as long and return False.
        """

    def outdated(self, stored: str) -> bool:
        """Return whether a hash was made with outdated parameters."""
