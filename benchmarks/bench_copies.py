"""Which near copies a key joins into one cluster, and what it joins that is no copy.

    python -m benchmarks.bench_copies [--documents 2000] [--seed 0] [--record]

Reads Reuters in ``SETWISE_TEST_DATA`` (training part) and the generated notes. Of each text five
copies are planted: with other numbers, in other case and spacing, with one word replaced by another
of the corpus, with three, and with a sentence more. *Recall* is the share of copies that have a
key of their text. *Joined* is the share of the texts, none planted, that share a key with another
one, and *unlike* the share of pairs with a key in common whose right sets differ.

- form: `normal_form`, which masks numbers, case and marks; near copies with it are of one cluster.
- bands: `bands_of`, MinHash; near copies have one of eight in common. With the form, that is what
  the product counts as one document.
- smallest k: the k smallest hashes of runs of four words.

*Left* is the share of the texts, none planted, that are counted as documents.
"""

import argparse
import gzip
import json
import os
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.rows import Figure, record
from setwise.models.demo_notes import read_notes
from setwise.models.guarantees.copies import LEAST_WORDS, bands_of
from setwise.service.domain.routing.copies import Likeness, normal_form

RUN = 4
"""Words of a run."""

CODE = ["models/guarantees/copies.py", "service/domain/routing/copies.py"]

Keys = Callable[[str], list[Hashable]]
Edit = Callable[[list[str], np.random.Generator, Sequence[str]], list[str]]


def main() -> None:
    options = _options()
    for name, texts, sets in (_reuters(options.documents), _notes(options.documents)):
        print(f"\n{name}: {len(texts):,} texts")
        print(f"{'key':<14}{''.join(f'{edit:>10}' for edit in EDITS)}  joined  unlike    left  µs")
        for key_name, keys_of in KEYS.items():
            draw = np.random.default_rng(options.seed)
            start = time.process_time()
            keys = [keys_of(text) for text in texts]
            each = (time.process_time() - start) / len(texts) * 1e6
            found = [_recall(keys_of, edit, texts, keys, draw) for edit in EDITS.values()]
            joined, unlike = _joined(keys, sets)
            shares = "".join(f"{share:>10.3f}" for share in found)
            left = _left(keys)
            print(f"{key_name:<14}{shares}{joined:>8.3f}{unlike:>8.2f}{left:>8.3f}{each:>4.0f}")
            if options.record:
                figures: dict[str, Figure] = dict(zip(EDITS, np.round(found, 3), strict=True))
                figures |= {"joined": round(joined, 3), "unlike": round(unlike, 2)}
                figures |= {"left": round(left, 3), "µs": round(each)}
                subject = f"{name}, {key_name}"
                record("copies", subject, figures, seed=options.seed, code=CODE)


def smallest(text: str, k: int) -> list[Hashable]:
    """Return the k smallest hashes of a text's runs of words as one key; all of a short text."""
    words = normal_form(text).split()
    if len(words) < LEAST_WORDS:
        return [" ".join(words)]
    runs = {" ".join(words[place : place + RUN]) for place in range(len(words) - RUN + 1)}
    return [tuple(sorted(zlib.crc32(run.encode("utf-8", "surrogatepass")) for run in runs)[:k])]


def bands(text: str) -> list[Hashable]:
    """Return the form of a text, and its bands with their places."""
    likeness = Likeness.of_text(text)
    return [likeness.form, *enumerate(bands_of(likeness.words))]


KEYS: dict[str, Keys] = {
    "form": lambda text: [normal_form(text)],
    "form, bands": bands,
    "smallest 1": lambda text: smallest(text, 1),
    "smallest 2": lambda text: smallest(text, 2),
}


def _replaced(n: int) -> Edit:
    def replace(words: list[str], draw: np.random.Generator, corpus: Sequence[str]) -> list[str]:
        words = list(words)
        for place in draw.choice(len(words), min(n, len(words)), replace=False):
            words[place] = corpus[int(draw.integers(len(corpus)))]
        return words

    return replace


def _numbered(words: list[str], draw: np.random.Generator, _: Sequence[str]) -> list[str]:
    other = str(draw.integers(10, 99))
    return [other if any(map(str.isdigit, word)) else word for word in words] + [other]


def _longer(words: list[str], draw: np.random.Generator, corpus: Sequence[str]) -> list[str]:
    return [*words, *(corpus[place] for place in draw.integers(len(corpus), size=12))]


EDITS: dict[str, Edit] = {
    "numbers": _numbered,
    "case": lambda words, _draw, _corpus: [f"{word.upper()} " for word in words],
    "1 word": _replaced(1),
    "3 words": _replaced(3),
    "sentence": _longer,
}


def _recall(
    keys_of: Keys,
    edit: Edit,
    texts: Sequence[str],
    keys: Sequence[list[Hashable]],
    draw: np.random.Generator,
) -> float:
    corpus = [word for text in texts[:200] for word in text.split()]
    copies = (" ".join(edit(text.split(), draw, corpus)) for text in texts)
    found = (set(keys_of(copy)) & set(own) for copy, own in zip(copies, keys, strict=True))
    return float(np.mean([bool(each) for each in found]))


def _joined(keys: Sequence[list[Hashable]], sets: Sequence[tuple[str, ...]]) -> tuple[float, float]:
    """Return the share of texts that share a key, and of their pairs those of unlike sets."""
    members = defaultdict(list)
    for place, own in enumerate(keys):
        for key in own:
            members[key].append(place)
    pairs = {pair for inside in members.values() for pair in combinations(inside, 2)}
    unlike = [sets[one] != sets[other] for one, other in pairs]
    joined = {place for pair in pairs for place in pair}
    return len(joined) / len(keys), float(np.mean(unlike)) if unlike else 0.0


def _left(keys: Sequence[list[Hashable]]) -> float:
    """Return the share of texts without a key of an earlier one: see `without_copies`."""
    known, left = set[Hashable](), 0
    for own in keys:
        left += known.isdisjoint(own)
        known.update(own)
    return left / len(keys)


def _reuters(n: int) -> tuple[str, list[str], list[tuple[str, ...]]]:
    source = Path(os.environ["SETWISE_TEST_DATA"]) / "reuters21578" / "train.jsonl.gz"
    with gzip.open(source, "rt") as file:
        lines = [line for line in map(json.loads, file) if line["text"].strip()][:n]
    return "Reuters", [line["text"] for line in lines], [tuple(line["labels"]) for line in lines]


def _notes(n: int) -> tuple[str, list[str], list[tuple[str, ...]]]:
    notes = read_notes()[:n]
    return "notes", [note.text for note in notes], [tuple(sorted(note.labels)) for note in notes]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=2_000, help="texts of each corpus")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", action="store_true", help="write rows to results/copies.jsonl")
    return parser.parse_args()


if __name__ == "__main__":
    main()
