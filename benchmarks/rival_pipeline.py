"""Fits scikit-learn's usual pipeline for label sets, without any of Setwise.

    python benchmarks/rival_pipeline.py NOTES PIPELINE

Another server's own Python runs it, because a pickle is only read by the versions that wrote it.
"""

import json
import sys
from pathlib import Path

import joblib
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer


def main(notes: Path, pipeline: Path) -> None:
    """Fit on a file of JSON Lines, and write the pipeline."""
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    sets = MultiLabelBinarizer().fit_transform([line["labels"] for line in lines])
    fitted = make_pipeline(
        TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)),
        OneVsRestClassifier(LogisticRegression(C=10.0)),
    ).fit([line["text"] for line in lines], sets)
    joblib.dump(fitted, pipeline)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
