"""Score live traffic with a candidate, without delaying the serving model."""

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from setwise.service.domain.errors import ServiceError
from setwise.service.domain.predictions import Prediction, ScoredSet
from setwise.service.services.models import scored_again
from setwise.service.services.ports import Predictor

MOST_WAITING = 1_000
"""Most documents in memory; beyond them, documents are not compared."""

TOGETHER = 64

log = structlog.get_logger(__name__)

Candidate = tuple[str, Predictor]
"""A model's id and the model."""

Record = Callable[[str, Sequence[Prediction], Sequence[ScoredSet]], None]
"""Stores a candidate's scores of predictions, by the id of its model."""


class ShadowScorer:
    """Compares committed predictions with a candidate in the background.

    ``candidate``: Returns the current shadow model, or None.
    """

    def __init__(self, candidate: Callable[[], Candidate | None]) -> None:
        self._candidate = candidate
        self._waiting: queue.Queue[Prediction] = queue.Queue(MOST_WAITING)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.dropped = 0

    def offer(self, predictions: Sequence[Prediction]) -> None:
        """Queue predictions for comparison; never waits or raises."""
        if self._thread is None or self._candidate() is None:
            return
        for prediction in predictions:
            try:
                self._waiting.put_nowait(prediction)
            except queue.Full:
                self.dropped += 1

    def start(self, record: Record) -> None:
        """Start comparing in a thread of this process; ``record`` stores the scores."""
        self._thread = threading.Thread(
            target=self._run, args=(record,), name="shadow", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop comparing, and drop waiting predictions."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, record: Record) -> None:
        while not self._stopping.is_set():
            batch = self._next()
            candidate = self._candidate()
            if not batch or candidate is None:
                continue
            try:
                self._compare(candidate, batch, record)
            except ServiceError as error:
                log.warning("shadow.failed", model_id=candidate[0], reason=error.detail)
            except Exception:
                log.exception("shadow.failed", model_id=candidate[0])

    def _next(self) -> list[Prediction]:
        batch: list[Prediction] = []
        with suppress(queue.Empty):
            batch.append(self._waiting.get(timeout=0.2))
            while len(batch) < TOGETHER:
                batch.append(self._waiting.get_nowait())
        return batch

    @staticmethod
    def _compare(candidate: Candidate, batch: Sequence[Prediction], record: Record) -> None:
        model_id, predictor = candidate
        others = [
            prediction
            for prediction in batch
            if prediction.scored.model_version != predictor.version
        ]
        if others:
            scored = scored_again(predictor, others)
            if scored:
                record(
                    model_id,
                    [prediction for prediction, _ in scored],
                    [score for _, score in scored],
                )
