"""Read the service's documents as a model does, and say what it cannot read."""

# ruff: noqa: PLC0415 -- numpy and numba import slowly, and most commands load no model

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, NoReturn

from setwise.service.domain import errors
from setwise.service.domain.predictions import Document
from setwise.service.domain.text import MOST_HINTED, escaped, nearest, question

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from setwise.models.data.answer_parsing import AnswerError
    from setwise.models.data.answers import ModelAnswers
    from setwise.models.data.rows import SparseRows
    from setwise.models.predictor import SetPredictions, SetPredictor

MOST_NAMED = 20
"""Unknown labels of a document that an error points at."""


def predict(predictor: "SetPredictor", documents: Sequence[Document]) -> "SetPredictions":
    """Return a model's predictions of documents.

    Raises `InvalidRequest` if a document lacks what the model reads, or has features or labels
    that it does not know.
    """
    if predictor.kind == "text":
        return predictor.predict_texts(_texts(predictor, documents))
    if predictor.kind == "vectors":
        with _checked_features():
            return predictor.predict_features(_features(documents))
    answers = _answers(predictor, documents)
    if predictor.vectorizer is not None:
        return predictor.predict_answers(answers, texts=_texts(predictor, documents))
    if not predictor.feature_names:
        return predictor.predict_answers(answers)
    with _checked_features():
        rows = predictor.feature_rows(_features(documents))
    return predictor.predict_answers(answers, X=rows.to_matrix())


def read_answered(
    predictor: "SetPredictor", document: Document
) -> "tuple[ModelAnswers, csr_array | None]":
    """Return the answer that an external model reads, and the row; see `predict`."""
    answers = _answers(predictor, [document])
    rows: SparseRows | None = None
    if predictor.vectorizer is not None:
        rows = predictor.text_rows(_texts(predictor, [document]))
    elif predictor.feature_names:
        with _checked_features():
            rows = predictor.feature_rows(_features([document]))
    return answers, None if rows is None else rows.to_matrix()


def _answers(predictor: "SetPredictor", documents: Sequence[Document]) -> "ModelAnswers":
    from setwise.models.data.answer_parsing import AnswerError

    for document in documents:
        if document.answer is None:
            _refuse(
                "/document",
                "The active model reads another model's answers: send scores, candidates or "
                "labels, beside the text if there is one.",
            )
    rows = [{**(document.answer or {}), "metadata": document.metadata} for document in documents]
    try:
        return predictor.read_answers(rows)
    except AnswerError as error:
        raise errors.InvalidRequest(
            f"The other model's answer cannot be read: {error.fault}; {error.cure}.",
            _faults(error, documents[error.document], predictor.label_names),
        ) from error


def _faults(
    error: "AnswerError", document: Document, labels: tuple[str, ...]
) -> list[errors.FieldFault]:
    from setwise.models.data.answer_parsing import UnknownLabels

    # Metadata stands beside the document in a request.
    path = error.path if error.path.startswith("/metadata") else f"/document{error.path}"
    if not isinstance(error, UnknownLabels):
        return [errors.FieldFault(path, f"{error.fault}; {error.cure}")]
    named = error.names[:MOST_NAMED]
    meant = {name: _hint(name, labels) for name in named[:MOST_HINTED]}
    faults = [
        errors.FieldFault(
            f"{path}/{_place(error.path, name, document)}",
            f"is not a label of the active model{meant.get(name, '')}",
        )
        for name in named
    ]
    if len(error.names) > len(named):
        more = f"has {len(error.names) - len(named)} more labels that the active model lacks"
        faults.append(errors.FieldFault(path, more))
    return faults


@lru_cache(maxsize=1_000)  # a file may misspell one label in every line
def _hint(label: str, labels: tuple[str, ...]) -> str:
    return question(nearest(label, labels))


def _place(path: str, label: str, document: Document) -> str:
    """Return where a label stands: its name in scores, its number in a set."""
    answer = document.answer or {}
    if path == "/scores":
        return escaped(label)
    if path == "/labels":
        return str(list(answer["labels"]).index(label))
    number = int(path.split("/")[2])
    return str(list(answer["candidates"][number]["labels"]).index(label))


def _texts(predictor: "SetPredictor", documents: Sequence[Document]) -> list[str]:
    texts = [document.text for document in documents if document.text is not None]
    if len(texts) < len(documents) and predictor.kind == "external":
        _refuse("/document/text", "The active model reads the text too: send it with the answer.")
    if len(texts) < len(documents):
        _refuse("/document/features", "The active model reads text: send text, not features.")
    return texts


def _features(documents: Sequence[Document]) -> "list[dict[str, float]]":
    rows = []
    for document in documents:
        if document.features is None:
            _refuse("/document/text", "The active model reads vectors: send features, not text.")
        rows.append(dict(document.features))
    return rows


def _refuse(pointer: str, detail: str) -> NoReturn:
    raise errors.InvalidRequest(detail, [errors.FieldFault(pointer, detail)])


@contextmanager
def _checked_features() -> Iterator[None]:
    from setwise.models.predictor import UnknownFeatures

    try:
        yield
    except UnknownFeatures as error:
        detail = "is not a feature of the active model"
        raise errors.InvalidRequest(
            f"The document has {error}.",
            [
                errors.FieldFault(f"/document/features/{escaped(name)}", detail)
                for name in error.names
            ],
        ) from error
