"""Read, predict and write lines for ``predict``, on one core, several, or a cluster."""

# ruff: noqa: PLC0415 - numpy and numba import slowly: only where needed

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from itertools import chain, islice
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from setwise.service.cli.cluster import Cluster, fault_of, threads
from setwise.service.cli.console import CommandError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from setwise.models.data.answers import Answers
    from setwise.models.data.datasets import PredictionInput
    from setwise.models.predictor import SetPredictions, SetPredictor

Line = tuple[int, bytes]

LIKELY_LABELS = 20
"""Number of labels whose probability is written."""

_LINES_AT_ONCE = 256
# Shorter input is finished before other processes would have started.
_LINES_ALONE = 8 * _LINES_AT_ONCE
_WAITING_PER_WORKER = 3  # blocks: enough to keep workers busy, with constant memory
_RETRIES = 5  # of a block, each on another worker


class LinePredictor:
    """Turns lines of JSON into lines of predictions.

    ``name``: Name of the input, for messages.
    ``top``: Candidate sets to write per document, at least 1.
    """

    def __init__(self, predictor: "SetPredictor", name: str, top: int) -> None:
        self._predictor = predictor
        self._name = name
        self._top = top
        self.version = f"{predictor.version}, calibrator {predictor.calibrator_version}"
        self._labels = [json.dumps(label) for label in predictor.label_names]
        # The member of a document that the model reads, None for answers alone.
        self._reads = "text" if predictor.vectorizer else None
        if predictor.vectorizer is None and predictor.feature_names:
            self._reads = "features"
        self._features = frozenset(predictor.feature_names if self._reads == "features" else ())
        self._tail = (
            f'"model_version": {json.dumps(predictor.version)}, '
            f'"calibrator_version": {json.dumps(predictor.calibrator_version)}}}\n'
        )

    def __call__(self, lines: Sequence[Line]) -> str:
        """Return a line of predictions for each line that is not blank.

        Raises `DataError` at the first line that is not a valid document for the model.
        """
        numbered = self._numbered(lines)
        documents = [document for _, document in numbered]
        if not documents:
            return ""
        if self._predictor.kind == "external":
            predictions = self._predict_answers(numbered)
        elif self._predictor.kind == "text":
            predictions = self._predictor.predict_texts([each.text or "" for each in documents])
        else:
            predictions = self._predictor.predict_features(
                [each.features or {} for each in documents]
            )
        return "".join(self._written(predictions, [each.id for each in documents]))

    def documents(self, lines: Iterable[Line]) -> "list[PredictionInput]":
        """Return the documents of numbered lines, without blank lines.

        Raises `DataError` at the first line that is not a valid document for the model.
        """
        return [document for _, document in self._numbered(lines)]

    def _numbered(self, lines: Iterable[Line]) -> "list[tuple[int, PredictionInput]]":
        from setwise.models.data.documents import parse_document

        external = self._predictor.kind == "external"
        found = []
        for number, content in lines:
            document = parse_document(self._name, number, content, external=external)
            if document is not None:
                self._check(number, document)
                found.append((number, document))
        return found

    def answers(self, numbered: "Sequence[tuple[int, PredictionInput]]") -> "Answers":
        """Return another model's answers in documents; raises `DataError` with the line."""
        from setwise.models.data.answers import Answer, AnswerError, Answers
        from setwise.models.data.datasets import DataError
        from setwise.models.data.documents import answer_fault

        predictor = self._predictor
        given = [document.answer or Answer({}, (), {}) for _, document in numbered]
        try:
            answers = Answers.of_parsed(predictor.label_names, given, numbers=predictor.numbers)
            predictor.check_answers(answers)
        except AnswerError as error:
            number = numbered[error.document][0]
            raise DataError(self._name, number, answer_fault(error), error.cure) from error
        return answers

    def vectors(self, documents: "Sequence[PredictionInput]") -> "csr_array | None":
        """Return the features that an external model reads; None if it reads none."""
        if self._reads != "features":
            return None
        given = [document.features or {} for document in documents]
        return self._predictor.feature_rows(given).to_matrix()

    def _predict_answers(self, numbered: "list[tuple[int, PredictionInput]]") -> "SetPredictions":
        documents = [document for _, document in numbered]
        texts = [each.text or "" for each in documents]
        return self._predictor.predict_answers(
            self.answers(numbered), texts, self.vectors(documents)
        )

    def _check(self, number: int, document: "PredictionInput") -> None:
        """Raise `DataError` for a document that does not fit the model."""
        from setwise.models.data.datasets import DataError

        kind, wanted = self._predictor.kind, self._reads
        if kind == "external" and wanted is not None and getattr(document, wanted) is None:
            raise DataError(
                self._name,
                number,
                f"no {wanted}, but the model was trained on {wanted} and answers",
                f'give documents with "{wanted}" too',
            )
        if kind != "external" and (document.text is not None) != (kind == "text"):
            given = "text" if kind == "vectors" else "features"
            raise DataError(
                self._name,
                number,
                f"a document of {given}, but the model was trained on {kind}",
                f'give documents as "{wanted}"',
            )
        if wanted != "features" or document.features is None:
            return
        if not self._features >= document.features.keys():
            unknown = next(name for name in document.features if name not in self._features)
            raise DataError(
                self._name,
                number,
                f"feature {unknown[:60]!r} is unknown to the model",
                "use the feature names of the training data",
            )

    def _written(self, predictions: "SetPredictions", ids: Sequence[str | None]) -> Iterator[str]:
        """Yield each prediction as JSON, without fields that only the API has.

        The JSON is built by hand, because building objects for a general encoder takes several
        times longer than predicting.
        """
        import numpy as np

        from setwise.models.predictor import most_likely

        label = self._labels
        sets = predictions.candidates
        if not (np.isfinite(predictions.confidence).all() and np.isfinite(sets.log_score).all()):
            raise ValueError("a prediction is not finite")
        first, bounds, held = (
            array.tolist() for array in (sets.doc_indptr, sets.set_indptr, sets.labels)
        )
        confidence = predictions.confidence.tolist()
        score = np.exp(sets.log_score).tolist()
        likely = most_likely(predictions.marginals, LIKELY_LABELS)
        probability = np.take_along_axis(predictions.marginals, likely, axis=1).tolist()
        known = predictions.known_features.tolist()
        for row, (id_, columns, chances) in enumerate(
            zip(ids, likely.tolist(), probability, strict=True)
        ):
            start, end = first[row], min(first[row + 1], first[row] + self._top)
            named = [
                ", ".join([label[column] for column in held[bounds[s] : bounds[s + 1]]])
                for s in range(start, end)
            ]
            candidates = ", ".join(
                [
                    f'{{"labels": [{name}], "confidence": {sure!r}, "score": {chance!r}}}'
                    for name, sure, chance in zip(
                        named, confidence[start:end], score[start:end], strict=True
                    )
                ]
            )
            marginals = ", ".join(
                [
                    f'{{"label": {label[column]}, "probability": {chance!r}}}'
                    for column, chance in zip(columns, chances, strict=True)
                ]
            )
            yield (
                f'{{"id": {json.dumps(id_)}, "labels": [{named[0]}], '
                f'"confidence": {confidence[start]!r}, "candidates": [{candidates}], '
                f'"marginals": [{marginals}], "known_features": {known[row]}, {self._tail}'
            )


class Pool(NamedTuple):
    """Processes that predict blocks of lines."""

    submit: Callable[[list[Line]], Future[str]]
    size: Callable[[], int]  # number of processes


Processes = Callable[[LinePredictor], AbstractContextManager[Pool]]
"""Starts processes for a model."""


def predicted_lines(
    predictor: "SetPredictor",
    name: str,
    lines: Iterable[Line],
    top: int,
    processes: Processes | None = None,
) -> Iterator[str]:
    """Yield predictions of lines in blocks, in order and in constant memory.

    Raises `DataError` at the first invalid line, after the predictions of all lines before it.

    ``name``: Of the input, for messages.
    ``lines``: As `read_lines` yields them.
    ``top``: Candidate sets to write per document.
    ``processes``: Predict all but short input; None: this process predicts.
    """
    line_predictor = LinePredictor(predictor, name, top)
    rest = iter(lines)
    for block in _blocks(islice(rest, _LINES_ALONE)):
        yield from _up_to_the_fault(line_predictor, block)
    ahead = next(rest, None)
    if ahead is None:
        return
    blocks = _blocks(chain([ahead], rest))
    if processes is None:
        for block in blocks:
            yield from _up_to_the_fault(line_predictor, block)
    else:
        with processes(line_predictor) as pool:
            yield from _shared(line_predictor, blocks, pool)


def _blocks(lines: Iterable[Line]) -> Iterator[list[Line]]:
    rest = iter(lines)
    while block := list(islice(rest, _LINES_AT_ONCE)):
        yield block


def _up_to_the_fault(line_predictor: LinePredictor, block: Sequence[Line]) -> Iterator[str]:
    """Yield a block's predictions; at a fault, those before it, and raise."""
    from setwise.models.data.datasets import DataError

    try:
        predicted = line_predictor(block)
    except DataError as error:
        yield line_predictor([line for line in block if line[0] < (error.line or 0)])
        raise
    yield predicted


def _shared(
    line_predictor: LinePredictor, blocks: Iterator[list[Line]], pool: Pool
) -> Iterator[str]:
    """Predict blocks in several processes; yield their predictions in order."""
    waiting: deque[tuple[list[Line], Future[str]]] = deque()
    for block in islice(blocks, max(pool.size(), 1) * _WAITING_PER_WORKER):
        waiting.append((block, pool.submit(block)))
    while waiting:
        block, future = waiting.popleft()
        fault = fault_of(future, pool.size)
        if isinstance(fault, CommandError):
            raise fault
        if fault is None:
            yield future.result()
        else:
            # Predict here, to yield what came before the fault.
            yield from _up_to_the_fault(line_predictor, block)
        for following in islice(blocks, 1):
            waiting.append((following, pool.submit(following)))


def forks(jobs: int) -> Processes | None:
    """Return processes of this machine; None if one is enough, or forking is not safe here.

    They share the model and its compiled code without loading it.
    """
    if jobs == 1 or sys.platform != "linux":
        return None

    @contextmanager
    def start(line_predictor: LinePredictor) -> Iterator[Pool]:
        global _forked  # noqa: PLW0603 - forks inherit it, which needs no argument
        _forked = line_predictor
        executor = ProcessPoolExecutor(
            jobs, mp_context=multiprocessing.get_context("fork"), initializer=_begin_worker
        )
        try:
            yield Pool(lambda block: executor.submit(_predict_block, block), lambda: jobs)
        finally:
            _forked = None
            executor.shutdown(cancel_futures=True)

    return start


def dask_workers(cluster: Cluster, artifact: Path, name: str, top: int) -> Processes:
    """Return the workers of a Dask cluster, which must see the artifact under the same path.

    A block whose worker ends is given to another one.
    """

    @contextmanager
    def start(line_predictor: LinePredictor) -> Iterator[Pool]:
        with cluster as client, client.get_executor(retries=_RETRIES) as executor:
            model = str(artifact.resolve()), line_predictor.version, name, top
            yield Pool(
                lambda block: executor.submit(predict_lines, model, block), lambda: threads(client)
            )

    return start


def predict_lines(model: tuple[str, str, str, int], lines: Sequence[Line]) -> str:
    """Predict lines by a model that a process loads once.

    ``model``: The folder of its artifact, its version, a name of the input, and the candidate sets
    to write per document.
    """
    return _loaded(*model)(lines)


@lru_cache(maxsize=1)
def _loaded(artifact: str, version: str, name: str, top: int) -> LinePredictor:
    from setwise.models.storage.artifacts import load

    try:
        found = LinePredictor(load(artifact), name, top)
    except (OSError, ValueError) as error:
        raise CommandError(f"{artifact} cannot be read on a worker: {error}") from error
    if found.version != version:
        raise CommandError(f"{artifact} holds model {found.version} on a worker, not {version}")
    return found


_forked: LinePredictor | None = None


def _predict_block(block: list[Line]) -> str:
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
