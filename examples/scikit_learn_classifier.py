"""Send the probabilities of a scikit-learn classifier to Setwise.

    setwise model add --external --labels labels.txt --activate
    SETWISE_KEY=… python examples/scikit_learn_classifier.py train.jsonl new.jsonl

Lines are ``{"id": …, "text": …, "labels": […]}``; those of new.jsonl need no labels. ``labels.txt``
holds every label, one per line.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer

AT_ONCE = 256  # documents per request
N_SCORES = 10  # labels left out count as less likely


def answered(
    learnt: list[dict[str, Any]], documents: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the documents with the probabilities of a classifier."""
    binarizer = MultiLabelBinarizer()
    Y = binarizer.fit_transform([one["labels"] for one in learnt])
    classifier = make_pipeline(TfidfVectorizer(), OneVsRestClassifier(LogisticRegression(C=10)))
    classifier.fit([one["text"] for one in learnt], Y)
    rows = classifier.predict_proba([one["text"] for one in documents])
    for document, row in zip(documents, rows, strict=True):
        scores = {binarizer.classes_[j]: float(row[j]) for j in (-row).argsort()[:N_SCORES]}
        yield {"id": document["id"], "text": document["text"], "scores": scores}


def send(setwise: httpx.Client, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a prediction, or a problem, for each document."""
    items: list[dict[str, Any]] = []
    for start in range(0, len(documents), AT_ONCE):
        part = {"documents": documents[start : start + AT_ONCE]}
        response = setwise.post("/v1/predictions/batch", json=part)
        response.raise_for_status()
        items += response.json()["items"]
    return items


def main(setwise: httpx.Client, train: Path, new: Path) -> None:
    """Score the new documents, send them, and print the decisions."""
    learnt, documents = (
        [json.loads(line) for line in path.read_text().splitlines()] for path in (train, new)
    )
    for item in send(setwise, list(answered(learnt, documents))):
        print(item.get("document_id"), item.get("decision", item.get("detail")), item.get("labels"))


if __name__ == "__main__":
    url = os.environ.get("SETWISE_URL", "http://127.0.0.1:8000")
    headers = {"Authorization": f"Bearer {os.environ['SETWISE_KEY']}"}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as client:
        main(client, Path(sys.argv[1]), Path(sys.argv[2]))
