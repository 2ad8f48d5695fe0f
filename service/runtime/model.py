"""The model that serves in this process, and switching to another one."""

import gc
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

import structlog

from setwise.service.domain import errors
from setwise.service.domain.models import ModelVersion
from setwise.service.domain.recalibration import Calibration
from setwise.service.services.ports import Predictor
from setwise.service.stores.transaction import Transaction, Transactions

if TYPE_CHECKING:
    from setwise.models.predictor import SetPredictor
    from setwise.models.storage.recalibrations import StoredRecalibration
    from setwise.service.runtime.predictor import LoadedPredictor

POLL_S = 1.0
"""How long a process takes to notice another active model; the look costs one small query."""

RETRY_AFTER_S = 30.0
"""How long to wait before loading a failed model again, in seconds."""

log = structlog.get_logger(__name__)


_Id = tuple[str, str | None]
"""The ids of a model and of its calibrator; None means the model's own."""


class Loads(Protocol):
    """A source of loaded models and calibrators."""

    def load(self, location: str) -> "SetPredictor":
        """Return the model; raises `ModelUnavailable`."""

    def load_calibrator(self, location: str) -> "StoredRecalibration":
        """Return the calibrator; raises `CalibrationDamaged`."""


class _Target(NamedTuple):
    """A model with one of its calibrators; None means its own."""

    model: ModelVersion
    calibration: Calibration | None

    @property
    def id(self) -> _Id:
        return self.model.id, self.calibration.id if self.calibration else None


class ModelRegistry:
    """Serves one model and follows the database when another is activated.

    A thread polls the database every ``poll_s`` seconds. It loads and warms up the new model beside
    the old one, then swaps them in one assignment: requests in progress keep their model. If a
    model fails to load, the old one keeps serving. The same holds for a model's calibrator, which
    can change without loading the model again.
    """

    def __init__(
        self,
        begin: Transactions,
        store: Loads,
        *,
        poll_s: float = POLL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._begin = begin
        self._store = store
        self._poll_s = poll_s
        self._clock = clock
        self._serving: tuple[_Id, LoadedPredictor] | None = None
        self._shadow: tuple[_Id, LoadedPredictor] | None = None
        self._ready: tuple[_Id, LoadedPredictor] | None = None
        self._turn = threading.Lock()
        self._failed: tuple[_Id, float] | None = None
        self._unreadable: str | None = None
        self._loading: str | None = None
        self._none_active = False
        self._starting = False
        self._database_silent = False
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def active(self) -> Predictor:
        """Return the serving model; raises `ModelUnavailable` without one."""
        serving = self._serving
        if serving is None and self._loading is not None:
            raise errors.ModelLoading(f"{self._loading}; ask again in a moment.")
        if serving is None and self._unreadable is not None:
            raise errors.ModelUnreadable(
                f"The active model, {self._unreadable}, cannot be loaded. Put its artifact back "
                "or activate another model; setwise doctor says what is wrong."
            )
        if serving is None and self._none_active:
            raise errors.NoModel(
                "No model is active; add one: setwise model add ARTIFACT --activate."
            )
        if serving is None:
            raise errors.ModelUnavailable("Whether a model is active is not known yet.")
        return serving[1]

    def start_fault(self) -> str | None:
        """Return why requests should go to other servers while this one starts, or None.

        A new server that is still loading the active model would refuse predictions that the
        servers before it can make. Later loads, such as of the first model, hide no server.
        """
        return "The server is starting; ask again in a moment." if self._starting else None

    def shadow(self) -> tuple[str, Predictor] | None:
        """Return the shadow model with its id, or None."""
        shadow = self._shadow
        return None if shadow is None else (shadow[0][0], shadow[1])

    def load(self, model: ModelVersion) -> Predictor:
        """Load a model and predict once; activating it next needs no second load.

        Raises `ModelDamaged` if the model fails to load or to predict.
        """
        with self._begin(read_only=True) as transaction:
            target = _Target(model, transaction.calibrations.active(model.id))
        try:
            predictor = self._read(target, self._load(model.location))
        except errors.ServiceError as error:
            raise errors.ModelDamaged(error.detail) from error
        except Exception as error:
            log.exception("model.failed", model_id=model.id, version=model.version)
            raise errors.ModelDamaged(
                f"Model {model.id} failed to predict: {type(error).__name__}."
            ) from error
        self._ready = target.id, predictor
        return predictor

    def load_calibration(self, model: ModelVersion, calibration: Calibration) -> Predictor:
        """Return the model with a calibrator, after one prediction; see `load`.

        Raises `CalibrationDamaged` if the calibrator fails to load, or the model fails to predict
        with it.
        """
        target = _Target(model, calibration)
        try:
            predictor = self._loaded(target)
        except errors.CalibrationDamaged:
            raise
        except Exception as error:
            log.exception("calibrator.failed", calibration_id=calibration.id)
            raise errors.CalibrationDamaged(
                f"Calibrator {calibration.id} failed to predict: {type(error).__name__}."
            ) from error
        self._ready = target.id, predictor
        return predictor

    def follow(self) -> None:
        """Switch once to the models that should serve and shadow; log errors."""
        with self._turn:  # the watcher and callers that activate models
            self._follow()

    def _follow(self) -> None:
        try:
            with self._begin(read_only=True) as transaction:
                target = self._wanted(transaction, transaction.models.active())
                shadow = transaction.comparisons.shadow()
                candidate = self._wanted(
                    transaction, transaction.models.get(shadow.model_id) if shadow else None
                )
        except errors.ServiceError as error:
            if not self._database_silent:
                log.warning("model.unknown", reason=error.detail)
            self._database_silent = True
            return
        self._database_silent = False
        self._none_active = target is None
        if target is None:
            self._unreadable = None
        elif not self._is_settled(target):
            self._serve(target)
        self._follow_shadow(candidate)

    @staticmethod
    def _wanted(transaction: Transaction, model: ModelVersion | None) -> _Target | None:
        if model is None:
            return None
        return _Target(model, transaction.calibrations.active(model.id))

    def _follow_shadow(self, target: _Target | None) -> None:
        present = self._shadow[0] if self._shadow else None
        if target is None or target.model.active:
            self._shadow = None
        elif present != target.id and not self._is_settled(target):
            try:
                self._shadow = target.id, self._loaded(target)
            except Exception as error:
                self._shadow = None
                self._failed = target.id, self._clock() + RETRY_AFTER_S
                log.exception("shadow.failed", model_id=target.model.id, reason=str(error))

    def _loaded(self, target: _Target) -> "LoadedPredictor":
        loaded = [pair for pair in (self._ready, self._shadow, self._serving) if pair is not None]
        for known, predictor in loaded:
            if known == target.id:
                return predictor
        for (model_id, _), predictor in loaded:
            if model_id == target.model.id:
                return self._read(target, predictor)
        return self._read(target, self._load(target.model.location))

    def _load(self, location: str) -> "LoadedPredictor":
        from setwise.service.runtime.predictor import LoadedPredictor  # noqa: PLC0415 -- see `FolderOrObjectStore`

        return LoadedPredictor(self._store.load(location))

    def _read(self, target: _Target, predictor: "LoadedPredictor") -> "LoadedPredictor":
        """Return the model with the wanted calibrator, ready to predict."""
        calibration = target.calibration
        calibrated = predictor.calibrated(
            self._store.load_calibrator(calibration.location) if calibration else None
        )
        calibrated.warm_up()
        return calibrated

    def _serve(self, target: _Target) -> None:
        started = self._clock()
        self._loading = f"Model {target.model.id} is being loaded"
        try:
            predictor = self._loaded(target)
        except Exception as error:
            self._failed = target.id, self._clock() + RETRY_AFTER_S
            self._unreadable = target.model.id
            log.exception(
                "model.failed",
                model_id=target.model.id,
                version=target.model.version,
                calibration_id=target.id[1],
                reason=str(error),
                still_serving=self._serving[1].version if self._serving else None,
            )
            return
        finally:
            self._loading = None
        self._serving, self._failed, self._ready = (target.id, predictor), None, None
        log.info(
            "model.serving",
            model_id=target.model.id,
            version=target.model.version,
            calibrator_version=predictor.calibrator_version,
            seconds=round(self._clock() - started, 3),
        )

    def _is_settled(self, target: _Target) -> bool:
        if self._serving is not None and self._serving[0] == target.id:
            return True
        return (
            self._failed is not None
            and self._failed[0] == target.id
            and self._clock() < self._failed[1]
        )

    def start(self, *, wait: bool = True) -> None:
        """Start following the database; a second call does nothing.

        ``wait``: Load the current model first; otherwise it is loaded in the background.
        """
        if self._thread is not None:
            return
        if wait:
            self.follow()
        else:
            self._loading, self._starting = "The server is starting", True
        self._thread = threading.Thread(target=self._watch, name="model-watcher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop following the database; the model keeps serving."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        if self._serving is None:
            self.follow()
            self._loading, self._starting = None, False
        self._freeze()
        while not self._stopping.wait(self._poll_s):
            self.follow()

    @staticmethod
    def _freeze() -> None:
        """Keep the garbage collector from scanning repeatedly, under load, what stays loaded."""
        gc.collect()
        gc.freeze()
