"""Small data sets with something to learn, made on the spot."""

from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array

from setwise.models.data.answer_parsing import parse_answer
from setwise.models.data.answers import ModelAnswers
from setwise.models.data.datasets import Dataset

WORDS = [
    "fever cough", "rash itch", "fracture cast", "insulin glucose", "pressure heart", "stone kidney"
]  # fmt: skip


def vectors(n=300, n_labels=5, n_features=12, seed=0):
    """Return vectors whose labels follow from the first features, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, n_features)) * (rng.random((n, n_features)) < 0.5)
    chance = 1 / (1 + np.exp(-8 * (X[:, :n_labels] - 0.5)))
    Y = rng.random((n, n_labels)) < chance
    Y[Y.sum(axis=1) == 0, 0] = True  # no empty sets
    return dataset(X, Y)


def dataset(X, Y):
    """Return a data set of vectors from two dense matrices."""
    X = csr_array(np.asarray(X, dtype=np.float32))
    Y = csr_array(np.asarray(Y, dtype=np.uint8))
    return Dataset(
        kind="vectors",
        ids=tuple(map(str, range(X.shape[0]))),
        label_names=tuple(f"label {i}" for i in range(Y.shape[1])),
        Y=Y,
        texts=None,
        X=X,
        feature_names=tuple(f"f{i}" for i in range(X.shape[1])),
        fingerprint="0" * 64,
    )


def texts(n=120, seed=0, lost=0.0):
    """Return short texts in which each label has words of its own, a share of them ``lost``."""
    rng = np.random.default_rng(seed)
    Y = rng.random((n, len(WORDS))) < 0.3
    Y[Y.sum(axis=1) == 0, 0] = True
    documents = [
        " ".join(["note"] + [WORDS[i] for i in rng.permutation(np.flatnonzero(row))]) for row in Y
    ]
    if lost:
        documents = [
            " ".join(word for word in document.split() if rng.random() >= lost)
            for document in documents
        ]
    return Dataset(
        kind="text",
        ids=tuple(map(str, range(n))),
        label_names=tuple(f"label {i}" for i in range(len(WORDS))),
        Y=csr_array(Y.astype(np.uint8)),
        texts=tuple(documents),
        X=None,
        feature_names=None,
        fingerprint="1" * 64,
    )


def answers_of(label_names, documents, *, numbers=()):
    """Return the answers of another model in documents as clients send them."""
    parsed = [parse_answer(document, place) for place, document in enumerate(documents)]
    return ModelAnswers.of(label_names, parsed, numbers=numbers)


def answered(data, kind="candidates", seed=0):
    """Return a data set with answers of a made-up model that errs; its documents stay."""
    rng = np.random.default_rng(seed)
    truth = data.Y.toarray().astype(float)
    P = 1 / (1 + np.exp(-(4 * truth - 2 + rng.normal(0, 1.2, truth.shape))))

    def named(row):
        return [data.label_names[label] for label in np.flatnonzero(row)]

    documents = [
        {"scores": dict(zip(data.label_names, row.tolist(), strict=True))}
        if kind == "scores"
        else {"candidates": [{"labels": named(rng.random(len(row)) < row)} for _ in range(3)]}
        if kind == "candidates"
        else {"labels": named(row > 0.5)}
        for row in P
    ]
    for document, row in zip(documents, truth, strict=True):
        document["metadata"] = {"length": int(10 * row.sum())}
    return replace(
        data,
        kind="external",
        answers=answers_of(data.label_names, documents, numbers=("length",)),
    )
