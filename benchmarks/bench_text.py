"""Time to vectorise a text, compared with scikit-learn's TfidfVectorizer.

    python -m benchmarks.bench_text [FOLDER]

FOLDER holds ``train`` and ``test`` parts of texts; the default is Reuters in ``SETWISE_TEST_DATA``.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from sklearn.feature_extraction.text import TfidfVectorizer

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.text import TextVectorizer

ROUNDS = 5
ROOT = Path(__file__).resolve().parents[1]


def us_per_text(transform: Callable[[Sequence[str]], object], texts: Sequence[str]) -> float:
    """Return the median over some rounds, one batch a round."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        transform(texts)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) / len(texts) * 1e6


def main() -> None:
    data = Path(os.environ.get("SETWISE_TEST_DATA", ROOT.parent / "shared" / "data"))
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else data / "reuters21578"
    if not folder.is_dir():
        sys.exit(f"no data at {folder}: give a folder or set SETWISE_TEST_DATA")
    train, test = read_dataset(folder, "train"), read_dataset(folder, "test")
    if train.texts is None or test.texts is None:
        sys.exit(f"{folder} holds vectors, not texts")
    start = time.perf_counter()
    ours = TextVectorizer().fit(train.texts)
    ours_fit = time.perf_counter() - start
    start = time.perf_counter()
    theirs = TfidfVectorizer(min_df=2, sublinear_tf=True).fit(train.texts)
    theirs_fit = time.perf_counter() - start
    texts = test.texts[:1000]
    ours.transform(texts[:1])  # compiles
    print(f"{len(texts)} texts of {folder.name}, median of {ROUNDS} rounds, µs a text")
    print(f"{'':24}{'setwise':>10}{'sklearn':>10}{'ratio':>8}")
    rows = {
        "fit": (ours_fit / train.n * 1e6, theirs_fit / train.n * 1e6),
        "transform, one batch": (
            us_per_text(ours.transform, texts),
            us_per_text(theirs.transform, texts),
        ),
        "transform, one by one": (
            us_per_text(lambda batch: [ours.transform([text]) for text in batch], texts),
            us_per_text(lambda batch: [theirs.transform([text]) for text in batch], texts),
        ),
    }
    for name, (mine, reference) in rows.items():
        print(f"{name:24}{mine:10.1f}{reference:10.1f}{reference / mine:8.1f}")


if __name__ == "__main__":
    main()
