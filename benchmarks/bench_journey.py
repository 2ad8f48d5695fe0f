"""From another model's answers without any history to certified sending, on Reuters.

    python -m benchmarks.bench_journey [SEED]

Reads ``SETWISE_TEST_DATA``. Logistic regressions of 1,000 training documents stand in for the other
model. Their answers to the other documents, in random order, are written to files: one bare label
set; five label sets, of classifiers on bootstrap samples, as a language model gives when it is
asked five times; or the probabilities of the ten likeliest labels. Setwise knows the labels' names
and nothing else. 500 documents a week pass through its services on SQLite (`tests/simulation`),
with a recalibration each week until a certificate holds. Two annotators contradict .05 of the right
predictions and accept .02 of the wrong ones.
"""

import gzip
import json
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer

from setwise.models.storage.artifacts import save
from setwise.models.training_external import start_external
from setwise.service.domain.predictions import Document
from setwise.service.domain.routing.audits import AuditPlan
from tests.simulation.loop import Week, simulate
from tests.simulation.office import Scenario
from tests.simulation.streams import Item, Labels

TRAINED_ON = 1_000
N_SCORES = 10  # labels whose probability is written
SCENARIO = Scenario(
    weeks=19,
    documents=500,
    target=0.9,
    risk=0.1,
    annotators=(0.05, 0.05),
    audits=AuditPlan(certification_rate=0.1, ramp_up_rate=0.5, gold_reread_rate=0.5),
    recertify_every=0,
    recalibrate_every=1,
)


def answer(documents: Sequence[dict[str, Any]], folder: Path, seed: int) -> list[str]:
    """Write files of the documents that the stand-in did not learn from; return all labels."""
    learnt, asked = documents[:TRAINED_ON], list(documents[TRAINED_ON:])
    Random(seed).shuffle(asked)
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2)
    X = vectorizer.fit_transform([one["text"] for one in learnt])
    binarizer = MultiLabelBinarizer()
    Y = binarizer.fit_transform([one["labels"] for one in learnt])
    names = [str(name) for name in binarizer.classes_]
    rows = vectorizer.transform([one["text"] for one in asked])
    draw = np.random.default_rng(seed)
    fits = [np.arange(len(learnt)), *(draw.choice(len(learnt), len(learnt)) for _ in range(5))]
    chances = [_fitted(X[fit], Y[fit]).predict_proba(rows) for fit in fits]
    sets = [[[names[j] for j in np.flatnonzero(row > 0.5)] for row in each] for each in chances]
    kinds: dict[str, list[dict[str, Any]]] = {
        "one label set": [{"answer": labels} for labels in sets[0]],
        "five label sets": [
            {"candidates": [{"labels": labels} for labels in several]}
            for several in zip(*sets[1:], strict=True)
        ],
        "scores": [
            {"scores": {names[j]: float(row[j]) for j in np.argsort(-row)[:N_SCORES]}}
            for row in chances[0]
        ],
    }
    for kind, answers in kinds.items():
        with (folder / f"{kind}.jsonl").open("w") as file:
            for number, (one, given) in enumerate(zip(asked, answers, strict=True)):
                line = {"id": str(number), "text": one["text"], "labels": one["labels"], **given}
                file.write(json.dumps(line) + "\n")
    return sorted({label for one in documents for label in one["labels"]})


def _fitted(X: csr_matrix, Y: NDArray[np.int_]) -> OneVsRestClassifier:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about labels that a bootstrap sample lacks
        return OneVsRestClassifier(LogisticRegression(C=30, solver="liblinear")).fit(X, Y)


@dataclass(frozen=True)
class AnsweredStream:
    """The documents of a file, with another model's answers."""

    artifact: Path
    labels: Sequence[str]
    lines: Sequence[dict[str, Any]]
    predictor: None = None

    def item(self, number: int) -> Item:
        """Return a document with its answer and its truth."""
        line = self.lines[number]
        given: dict[str, Any] = {
            name: line[name] for name in ("scores", "candidates") if name in line
        }
        if "answer" in line:
            given["labels"] = line["answer"]
        truth: Labels = tuple(sorted(line["labels"]))
        return Item(Document(id=line["id"], text=line["text"], answer=given), truth)


def show(kind: str, weeks: Sequence[Week], trusted: float, seconds: float) -> None:
    """Print what it took to send, and how right that was."""
    first = next((week.week for week in weeks if week.certified), None)
    before = weeks if first is None else weeks[:first]
    after = [] if first is None else weeks[first:]
    sent, right = sum(week.sent for week in weeks), sum(week.right for week in weeks)
    print(
        f"\n{kind}: {trusted:.3f} of the answers are right ({seconds:.0f} s)\n"
        f"  certified after {first} weeks: {sum(week.documents for week in before)} documents, "
        f"{sum(week.reviews for week in before)} reviews, "
        f"{sum(week.audits for week in before)} audits, "
        f"{sum(week.adjudications for week in before)} second readings\n"
        f"  then {sum(week.sent for week in after) / max(1, sum(w.documents for w in after)):.1%} "
        f"sent, {right / max(1, sent):.3f} of {sent} right"
    )
    for week in weeks:
        share = "" if week.accuracy is None else f"{week.accuracy:.3f}"
        threshold = "" if week.threshold is None else f"{week.threshold:.3f}"
        note = week.lacking or ("recalibrated" if week.recalibrated else "")
        print(f"  {week.week:4}{week.coverage:8.1%}{share:>8}{threshold:>8}  {note}", flush=True)


def main() -> None:
    """Write the answers, and let each kind make its way."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    source = Path(os.environ["SETWISE_TEST_DATA"]) / "reuters21578"
    documents: list[dict[str, Any]] = []
    for part in ("train", "test"):
        with gzip.open(source / f"{part}.jsonl.gz", "rt") as file:
            documents += [json.loads(line) for line in file]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        labels = answer(documents, folder, seed)
        save(start_external(labels), folder / "model")
        for path in sorted(folder.glob("*.jsonl")):
            lines = [json.loads(line) for line in path.open()]
            stream = AnsweredStream(folder / "model", labels, lines)
            started = time.perf_counter()
            weeks = simulate(SCENARIO, stream)
            trusted = np.mean([_first(line) == set(line["labels"]) for line in lines])
            show(path.stem, weeks, float(trusted), time.perf_counter() - started)


def _first(line: dict[str, Any]) -> set[str]:
    if "answer" in line:
        return set(line["answer"])
    if "scores" in line:
        return {label for label, score in line["scores"].items() if score > 0.5}
    sets = [frozenset(one["labels"]) for one in line["candidates"]]
    return set(Counter(sets).most_common(1)[0][0])


if __name__ == "__main__":
    main()
