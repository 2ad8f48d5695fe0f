"""What different features of texts are worth to binary relevance alone.

    python -m benchmarks.bench_text_features [--documents 4000] [--seed 0] [--only WORD] [FOLDER…]

Only the ``train`` part of a folder is read; the default is Reuters in ``SETWISE_TEST_DATA``.
Documents are drawn by the seed, and a quarter of them is held out. The rows show the mean log-loss
of a label in nats and the share of documents whose most probable non-empty set is right, each with
its difference to plain words and the standard error of that difference, paired by document. CPU
seconds include the choice of penalties.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.pipeline import make_pipeline

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.text import TextVectorizer
from setwise.models.labels.binary_relevance import BinaryRelevance
from setwise.models.sets.search import k_best_sets

ROOT = Path(__file__).resolve().parents[1]
Vectors = Callable[[Sequence[str], Sequence[str]], tuple[csr_array, csr_array]]


def ours(**settings: bool | int) -> Vectors:
    """Return training and test vectors of our vectorizer."""

    def vectors(train: Sequence[str], test: Sequence[str]) -> tuple[csr_array, csr_array]:
        vectorizer = TextVectorizer(**settings).fit(train)  # type: ignore[arg-type]  # one table of settings
        return vectorizer.transform(train), vectorizer.transform(test)

    return vectors


def characters(shortest: int, longest: int) -> Vectors:
    """Return tf-idf of runs of characters inside words, the blank around each word included."""

    def vectors(train: Sequence[str], test: Sequence[str]) -> tuple[csr_array, csr_array]:
        tfidf = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(shortest, longest), min_df=5, sublinear_tf=True
        ).fit(train)
        return csr_array(tfidf.transform(train)), csr_array(tfidf.transform(test))

    return vectors


def hashed(n_columns: int) -> Vectors:
    """Return tf-idf of words hashed to so many columns."""

    def vectors(train: Sequence[str], test: Sequence[str]) -> tuple[csr_array, csr_array]:
        counts = HashingVectorizer(
            n_features=n_columns, token_pattern=r"\w+", norm=None, alternate_sign=False
        )
        tfidf = make_pipeline(counts, TfidfTransformer(sublinear_tf=True)).fit(train)
        return csr_array(tfidf.transform(train)), csr_array(tfidf.transform(test))

    return vectors


VARIANTS: dict[str, Vectors] = {
    "words": ours(),
    "first line twice": ours(first_line_twice=True),
    "beginnings of 4 letters": ours(beginnings=4),
    "beginnings of 5 letters": ours(beginnings=5),
    "beginnings of 6 letters": ours(beginnings=6),
    "first line, beginnings of 4": ours(first_line_twice=True, beginnings=4),
    "pairs of words": ours(bigrams=True),
    "runs of 3 to 5 characters": characters(3, 5),
    "words hashed to 262,144": hashed(2**18),
    "words hashed to 16,384": hashed(2**14),
}


class Outcome(NamedTuple):
    """How a variant did, by held-out document."""

    loss: NDArray[np.float64]
    right: NDArray[np.float64]


def judge(parts: tuple[csr_array, csr_array], Y: csr_array, Y_test: csr_array) -> Outcome:
    """Fit binary relevance and judge it."""
    X, X_test = parts
    logits = BinaryRelevance(l1_ratio=0.5, random_state=0).fit(X, Y).decision_function(X_test)
    truth = Y_test.toarray()
    loss = np.logaddexp(0.0, logits) - truth * logits
    sets = k_best_sets(1.0 / (1.0 + np.exp(-logits)), 1, allow_empty=False).first()
    right = (sets.toarray() == truth).all(axis=1)
    return Outcome(loss.mean(axis=1), right.astype(float))


def difference(of: NDArray[np.float64], to: NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean difference and its standard error."""
    gain = of - to
    return float(gain.mean()), float(gain.std() / len(gain) ** 0.5)


def measure(folder: Path, n: int, seed: int, only: str) -> None:
    """Print the table of one data set."""
    train = read_dataset(folder, "train")
    if train.texts is None:
        sys.exit(f"{folder} holds vectors, not texts")
    drawn = np.random.default_rng(seed).permutation(train.n)[:n]
    cut = 3 * len(drawn) // 4
    fitted, held_out = (train.take(np.sort(part)) for part in (drawn[:cut], drawn[cut:]))
    print(f"\n{folder.name}: {fitted.n} documents to fit, {held_out.n} held out, seed {seed}")
    print(
        f"{'':28}{'log-loss':>9}{'against':>9}{'SE':>8}{'exact':>8}{'against':>9}{'SE':>7}", end=""
    )
    print(f"{'columns':>9}{'a text':>8}{'CPU s':>7}")
    words: Outcome | None = None
    for name, vectors in VARIANTS.items():
        if words is not None and only not in name:
            continue
        started = time.process_time()
        parts = vectors(fitted.texts or (), held_out.texts or ())
        outcome = judge(parts, fitted.Y, held_out.Y)
        words = words or outcome
        loss, loss_error = difference(outcome.loss, words.loss)
        right, right_error = difference(100 * outcome.right, 100 * words.right)
        print(
            f"{name:28}{outcome.loss.mean():9.5f}{loss:+9.5f}{loss_error:8.5f}"
            f"{100 * outcome.right.mean():8.2f}{right:+9.2f}{right_error:7.2f}"
            f"{parts[0].shape[1]:9}{parts[0].nnz / parts[0].shape[0]:8.0f}"
            f"{time.process_time() - started:7.1f}",
            flush=True,
        )


def main() -> None:
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--documents", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="variants whose names hold this, and words")
    parser.add_argument("folders", nargs="*", default=[str(data / "reuters21578")])
    asked = parser.parse_args()
    for name in asked.folders:
        if not Path(name).is_dir():
            sys.exit(f"no data at {name}: give a folder or set SETWISE_TEST_DATA")
        measure(Path(name), asked.documents, asked.seed, asked.only)


if __name__ == "__main__":
    main()
