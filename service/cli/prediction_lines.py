"""Read, predict and write lines for ``predict``, on one core, several, or a cluster."""

# ruff: noqa: PLC0415 - numpy and numba import slowly: only where needed

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain, islice
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, NamedTuple

from setwise.models.parallel import ahead
from setwise.service.cli.cluster import Cluster

if TYPE_CHECKING:
    from setwise.models.data.documents import PredictionInput
    from setwise.models.predictions import SetPredictions
    from setwise.models.predictor import ReadDocuments, SetPredictor

Line = tuple[int, bytes]

LIKELY_LABELS = 20
"""Number of labels whose probability is written."""

# A block: more lines need more memory, and are predicted no faster.
_LINES_AT_ONCE, _BYTES_AT_ONCE = 256, 4_000_000
# Shorter input is finished before other processes would have started.
_BLOCKS_ALONE = 8
_WAITING_PER_FORK = 3  # blocks: enough to keep them busy, with constant memory


class LinePredictor:
    """Turns lines of JSON into lines of predictions, in UTF-8.

    ``name``: Name of the input, for messages.
    ``top``: Candidate sets to write per document, at least 1.
    """

    def __init__(self, predictor: "SetPredictor", name: str, top: int) -> None:
        self._predictor = predictor
        self._name = name
        self._top = top

    def __call__(self, lines: Sequence[Line]) -> bytes:
        """Return a line of predictions for each line that is not blank.

        Raises `DataError` at the first line that is not a valid document for the model.
        """
        documents, read = self.read(lines)
        if not documents:
            return b""
        return b"".join(self._written(self._predictor.rank(read), [each.id for each in documents]))

    def read(self, lines: Iterable[Line]) -> "tuple[list[PredictionInput], ReadDocuments]":
        """Return the documents of numbered lines, without blank lines.

        Raises `DataError` at the first line that is not a valid document for the model.
        """
        from setwise.models.data.document_error import DocumentError
        from setwise.models.data.documents import fault_in_line, parse_document
        from setwise.models.data.lines import DataError

        external = self._predictor.kind == "external"
        numbers, documents = [], []
        for number, content in lines:
            document = parse_document(self._name, number, content, external=external)
            if document is not None:
                numbers.append(number)
                documents.append(document)
        try:
            return documents, self._predictor.read(documents)
        except DocumentError as error:
            number = numbers[error.document]
            raise DataError(self._name, number, fault_in_line(error), error.cure) from error

    def _written(self, predictions: "SetPredictions", ids: Sequence[str | None]) -> Iterator[bytes]:
        """Yield each prediction as a line of JSON, without fields that only the API has."""
        import numpy as np
        import orjson

        from setwise.models.predictions import most_likely

        # JSON has no number for either, and orjson would write null.
        for values in (predictions.confidence, predictions.marginals):
            if not np.isfinite(values).all():
                raise ValueError("a probability is not a number; the model's files are damaged")
        names = self._predictor.label_names
        likely = most_likely(predictions.marginals, LIKELY_LABELS)
        probability = np.take_along_axis(predictions.marginals, likely, axis=1).tolist()
        known = predictions.known_features.tolist()
        for row, (id_, columns, chances) in enumerate(
            zip(ids, likely.tolist(), probability, strict=True)
        ):
            candidates = predictions.ranked(row)[: self._top]
            prediction = {
                "id": id_,
                "labels": candidates[0].labels,
                "confidence": candidates[0].confidence,
                "candidates": [candidate._asdict() for candidate in candidates],
                "marginals": [
                    {"label": names[column], "probability": chance}
                    for column, chance in zip(columns, chances, strict=True)
                ],
                "known_features": known[row],
                "model_version": self._predictor.version,
                "calibrator_version": self._predictor.calibrator_version,
            }
            yield orjson.dumps(prediction, option=orjson.OPT_APPEND_NEWLINE)


class BlockPool(NamedTuple):
    """Predicts blocks of lines, several at once."""

    begin: Callable[[list[Line]], Callable[[], bytes]]
    ahead: Callable[[], int]  # number of blocks to begin before the first is needed


Processes = Callable[[LinePredictor], AbstractContextManager[BlockPool]]
"""Starts processes for a model."""


def predicted_lines(
    predictor: "SetPredictor",
    name: str,
    lines: Iterable[Line],
    top: int,
    processes: Processes | None = None,
) -> Iterator[bytes]:
    """Yield predictions of lines in blocks, in order and in constant memory.

    Raises `DataError` at the first invalid line, after the predictions of all lines before it.

    ``name``: Of the input, for messages.
    ``lines``: As `read_lines` yields them.
    ``top``: Candidate sets to write per document.
    ``processes``: Predict all but short input; None: this process predicts.
    """
    line_predictor = LinePredictor(predictor, name, top)
    blocks = _blocks(lines)
    for block in islice(blocks, _BLOCKS_ALONE):
        yield from _up_to_the_fault(line_predictor, block, partial(line_predictor, block))
    following = next(blocks, None)
    if following is None:
        return
    with (processes or _alone)(line_predictor) as pool:
        begun = ((block, pool.begin(block)) for block in chain([following], blocks))
        for block, predict in ahead(begun, pool.ahead):
            yield from _up_to_the_fault(line_predictor, block, predict)


def _blocks(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield lines in blocks; at an error of reading, those before it, and raise."""
    block: list[Line] = []
    size = 0
    try:
        for line in lines:
            block.append(line)
            size += len(line[1])
            if len(block) == _LINES_AT_ONCE or size >= _BYTES_AT_ONCE:
                yield block
                block, size = [], 0
    except Exception:
        yield block
        raise
    if block:
        yield block


def _up_to_the_fault(
    line_predictor: LinePredictor, block: Sequence[Line], predict: Callable[[], bytes]
) -> Iterator[bytes]:
    """Yield a block's predictions; at a fault, those before it, and raise."""
    from setwise.models.data.lines import DataError

    try:
        predicted = predict()
    except DataError as error:
        # An earlier line may be unfit for the model, which is seen once all lines are parsed.
        before = [line for line in block if line[0] < (error.line or 0)]
        yield from _up_to_the_fault(line_predictor, before, partial(line_predictor, before))
        raise
    yield predicted


@contextmanager
def _alone(line_predictor: LinePredictor) -> Iterator[BlockPool]:
    yield BlockPool(lambda block: partial(line_predictor, block), lambda: 0)


def forks(jobs: int) -> Processes | None:
    """Return processes of this machine; None if one is enough, or forking is not safe here.

    They share the model and its compiled code without loading it. If one ends, this process does
    what is left.
    """
    if jobs == 1 or sys.platform != "linux":
        return None

    @contextmanager
    def start(line_predictor: LinePredictor) -> Iterator[BlockPool]:
        global _forked  # noqa: PLW0603 - forks inherit it, which needs no argument
        _forked = line_predictor
        executor = ProcessPoolExecutor(
            jobs, mp_context=multiprocessing.get_context("fork"), initializer=_begin_worker
        )

        def begin(block: list[Line]) -> Callable[[], bytes]:
            try:
                task = executor.submit(_predict_block, block)
            except BrokenExecutor:
                return partial(line_predictor, block)

            def result() -> bytes:
                fault = task.exception()
                return line_predictor(block) if fault else task.result()

            return result

        try:
            yield BlockPool(begin, lambda: jobs * _WAITING_PER_FORK)
        finally:
            _forked = None
            executor.shutdown(cancel_futures=True)

    return start


def dask_workers(cluster: Cluster) -> Processes:
    """Return the workers of a Dask cluster."""

    @contextmanager
    def start(line_predictor: LinePredictor) -> Iterator[BlockPool]:
        with cluster as workers:
            begin = partial(workers.begin, LinePredictor.__call__, line_predictor)
            yield BlockPool(begin, workers.ahead)

    return start


_forked: LinePredictor | None = None


def _predict_block(block: list[Line]) -> bytes:
    if _forked is None:
        raise RuntimeError("a worker was started without its model")
    return _forked(block)


def _begin_worker() -> None:
    """Ignore interrupts, and exit when the parent process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
