"""Labels in odd spellings, in every container and format: read as meant, or refused with a cure."""

import csv
import gzip
import io
import json
import random
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy.sparse import csr_array

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.documents import parse_document, read_gold
from setwise.models.data.formats.layout import FileLayout
from setwise.models.data.lines import DataError, DataWarning, read_names
from setwise.service.api.schemas import PredictionRequest
from setwise.service.domain.documents import DocumentFilter
from setwise.service.domain.files import BadLine, document_in
from setwise.service.domain.routing.rules import AtMostRule, read_rules
from setwise.spelling import spelled
from tests.odd_labels import Case


class Written(NamedTuple):
    """A file, and how to read it."""

    path: Path
    layout: FileLayout = FileLayout()
    external: bool = False


def one_line(name: str) -> str:
    """Return a name as it can stand on a line."""
    return name.replace("\n", " ").replace("\r", " ")


def packed(path: Path, text: str, rng: random.Random) -> Path:
    """Write a text as some tool would: with a byte-order mark, gzipped, with other line ends."""
    content = (rng.choice(["", "\ufeff"]) + text).encode()
    path.write_bytes(gzip.compress(content) if rng.random() < 0.2 else content)
    return path


# --- what tools write -----------------------------------------------------------------------------


def numpy_list(names: Sequence[str]) -> str:
    return str(np.array(names, dtype=object)) if names else "[]"


def numpy_2_list(names: Sequence[str]) -> str:
    return f"[{', '.join(f'np.str_({name!r})' for name in names)}]"


CELLS: dict[str, Callable[[Sequence[str]], str]] = {
    "json": json.dumps,
    "json-text": lambda names: json.dumps(names, ensure_ascii=False),
    "python": lambda names: repr(list(names)),
    "tuple": lambda names: repr(tuple(names)),
    "set": lambda names: repr(set(names)),
    "frozenset": lambda names: repr(frozenset(names)),
    "numpy": numpy_list,
    "numpy-2": numpy_2_list,
    "array": lambda names: repr(np.array(names, dtype=object)),
    "choices": lambda names: json.dumps({"choices": list(names)}),
}


def as_jsonl(case: Case, folder: Path) -> Written:
    lines = [{"id": str(i), "text": "word", "labels": row} for i, row in enumerate(case.rows)]
    text = "".join(json.dumps(line) + case.rng.choice(["\n", "\r\n", "\r"]) for line in lines)
    return Written(packed(folder / "a.jsonl", text, case.rng))


def as_csv(case: Case, folder: Path) -> Written:
    written = CELLS[case.rng.choice(list(CELLS))]
    return _csv(case, folder, [["labels"], *([written(row)] for row in case.rows)], FileLayout())


def as_separated(case: Case, folder: Path) -> Written:
    sign = case.rng.choice([";", "|", ", ", "\t"])
    inside = [name for row in case.rows for name in row]
    if any(sign.strip(" ") in name or name.lstrip()[:1] in "[{('\"" for name in inside):
        return as_csv(case, folder)  # the separator says something else than names do
    named = None if sign == ";" and case.rng.random() < 0.5 else sign
    cells = [["labels"], *([sign.join(row)] for row in case.rows)]
    return _csv(case, folder, cells, FileLayout(label_separator=named))


def as_columns(case: Case, folder: Path) -> Written:
    truth = case.rng.choice([("0", "1"), ("False", "True"), ("0.0", "1.0")])
    cells = [case.names, *([truth[flag] for flag in case.flags(row)] for row in case.rows)]
    named = tuple(case.names) if case.rng.random() < 0.5 else ()
    return _csv(case, folder, cells, FileLayout(label_columns=named))


def _csv(case: Case, folder: Path, cells: list[list[str]], layout: FileLayout) -> Written:
    heads = ["text", *cells[0]]
    rows = [["word", *row] for row in cells[1:]]
    if case.rng.random() < 0.2:  # an index of pandas
        heads, rows = ["", *heads], [[str(i), *row] for i, row in enumerate(rows)]
    if case.rng.random() < 0.2:  # what a spreadsheet leaves
        heads, rows = [*heads, "", ""], [[*row, "", ""] for row in rows]
        rows.insert(case.rng.randrange(len(rows) + 1), [""] * len(heads))
    delimiter = case.rng.choice(",;\t")
    text = io.StringIO(newline="")
    end = case.rng.choice(["\n", "\r\n"])
    csv.writer(text, delimiter=delimiter, lineterminator=end).writerows([heads, *rows])
    head = f"sep={delimiter}{end}" if case.rng.random() < 0.2 else ""
    return Written(packed(folder / "a.csv", head + text.getvalue(), case.rng), layout)


def as_hub(case: Case, folder: Path) -> Written:
    kind = case.rng.choice(["names", "flags", "numbers", "columns", "cell"])
    names = list(map(spelled, case.names))
    if kind in {"flags", "numbers"}:
        packed(folder / "labels.txt", "".join(f"{name}\n" for name in names), case.rng)
        # The first row says whether all of them are lists of 0 and 1.
        if kind == "flags":
            values: list[object] = [case.flags(row) for row in case.rows]
        else:
            values = [[names.index(spelled(name)) for name in row] for row in case.rows]
            first = values[0]
            if isinstance(first, list) and len(first) == len(names) and set(first) <= {0, 1}:
                values = [case.flags(row) for row in case.rows]
        lines = [{"text": "word", "labels": value} for value in values]
    elif kind == "columns":
        flags = [case.flags(row) for row in case.rows]
        lines = [{"text": "word"} | dict(zip(case.names, row, strict=True)) for row in flags]
    else:
        lines = [{"text": "word", "labels": row} for row in case.rows]
        if kind == "cell":
            lines = [line | {"labels": json.dumps(line["labels"])} for line in lines]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    return Written(packed(folder / "a.jsonl", text, case.rng), FileLayout(format="huggingface"))


def as_parquet(case: Case, folder: Path) -> Written:
    columns: dict[str, Any] = {"text": ["word"] * len(case.rows)}
    kind = case.rng.choice(["list", "binary", "cell", "columns"])
    if kind == "columns":
        flags = np.array([case.flags(row) for row in case.rows], dtype=bool)
        columns |= {name: flags[:, place] for place, name in enumerate(case.names)}
    elif kind == "cell":
        columns["labels"] = [json.dumps(row) for row in case.rows]
    else:
        of = pa.binary() if kind == "binary" else pa.string()
        rows = [[name.encode() for name in row] if kind == "binary" else row for row in case.rows]
        columns["labels"] = pa.array(rows, pa.list_(of))
    parquet.write_table(pa.table(columns), folder / "a.parquet")
    return Written(folder / "a.parquet")


def as_tasks(case: Case, folder: Path) -> Written:
    taxonomy = case.rng.random() < 0.5
    tasks = []
    for number, row in enumerate(case.rows):
        value = {"taxonomy": [["all", name] for name in row]} if taxonomy else {"choices": row}
        result = [{"from_name": "codes", "type": "choices", "value": value}]
        tasks.append({"id": number, "data": {"text": "word"}, "annotations": [{"result": result}]})
    path = packed(folder / "a.json", json.dumps(tasks, indent=1), case.rng)
    return Written(path, FileLayout(format="label-studio"))


def as_vectors(case: Case, folder: Path) -> Written:
    packed(folder / "labels.txt", "".join(f"{one_line(name)}\n" for name in case.names), case.rng)
    places = {spelled(name): place for place, name in enumerate(case.names)}
    numbers = [sorted({places[spelled(name)] for name in row}) for row in case.rows]
    if case.rng.random() < 0.5:
        lines = "".join(f"{','.join(map(str, row))} 1:1\n" for row in numbers)
        return Written(packed(folder / "a.svm", lines, case.rng))
    head = f"{len(numbers)} 1 {len(case.names)}\n"
    lines = head + "".join(f"{','.join(map(str, row))} 0:1\n" for row in numbers)
    return Written(packed(folder / "a.xc.txt", lines, case.rng))


def as_arff(case: Case, folder: Path) -> Written:
    truth = case.rng.choice([["0", "1"], ["1", "0"], ["NO", "YES"], ["true", "false"]])
    yes = next(value for value in truth if value in {"1", "YES", "true"})
    no = next(value for value in truth if value != yes)
    sparse = case.rng.random() < 0.5
    rows = [[1.0, *(yes if flag else no for flag in case.flags(row))] for row in case.rows]
    filled = [{i: v for i, v in enumerate(row) if not i or v != truth[0]} for row in rows]
    names = [one_line(name).replace("\\", "\\\\").replace("'", "\\'") for name in case.names]
    head = f"@relation 'notes: -C -{len(names)}'\n@attribute feature numeric\n"
    head += "".join(f"@attribute '{name}' {{{','.join(truth)}}}\n" for name in names) + "@data\n"
    lines = [",".join(f"{i} {v}" for i, v in row.items()) for row in filled]
    body = [f"{{{line}}}" for line in lines] if sparse else [",".join(map(str, r)) for r in rows]
    text = head + "".join(f"{line}\n" for line in body)
    return Written(packed(folder / "a.arff", text, case.rng))


def as_npz(case: Case, folder: Path) -> Written:
    Y = np.array([case.flags(row) for row in case.rows])
    arrays: dict[str, Any] = {"Y": Y, "label_names": case.names}
    if case.rng.random() < 0.5:
        held = csr_array(Y)
        arrays = {f"Y_{part}": getattr(held, part) for part in ("data", "indices", "indptr")}
        arrays |= {"Y_shape": held.shape, "label_names": np.array(case.names)}
    np.savez(folder / "a.npz", X=np.ones((len(Y), 1)), **arrays)
    return Written(folder / "a.npz")


FORMATS: dict[str, Callable[[Case, Path], Written]] = {
    "jsonl": as_jsonl, "csv": as_csv, "separated": as_separated, "columns": as_columns,
    "hub": as_hub, "parquet": as_parquet, "tasks": as_tasks, "vectors": as_vectors,
    "arff": as_arff, "npz": as_npz,
}  # fmt: skip


def label_sets(written: Written) -> list[set[str]]:
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        dataset = read_dataset(written.path, layout=written.layout, external=written.external)
    names = np.array(dataset.label_names, dtype=object)
    return [set(names[row.astype(bool)].tolist()) for row in dataset.Y.toarray()]


def check_format(name: str, seed: int, folder: Path) -> bool:
    """Write and read a case; return whether it was read."""
    case = Case.drawn(seed)
    for old in folder.iterdir():
        old.unlink()
    written = FORMATS[name](case, folder)
    where = f"{name}, seed {seed}: {case.rows}"
    read, refusal = None, None
    try:
        read = label_sets(written)
    except DataError as error:
        refusal = error
    if refusal is not None:
        check_refusal(refusal, where, str(folder))
    else:
        assert read == case.meant, where
        assert "" not in set().union(*case.meant), where
    return refusal is None


def check_refusal(error: DataError, where: str, path: str = "") -> None:
    assert error.fault, where
    assert error.cure, where
    assert str(error).startswith(path), where
    assert "\n" not in str(error), where


# --- the doors of the service ---------------------------------------------------------------------


def check_doors(seed: int, folder: Path) -> bool:
    """Send a case through every door; return whether all took it."""
    case = Case.drawn(seed)
    row = max(case.rows, key=len)
    meant, rng = set(map(spelled, row)), case.rng
    where = f"seed {seed}: {row}"
    member = rng.choice(["labels", "candidates", "scores"])
    content: object = row
    if member == "candidates":
        content = [{"labels": row}]
    elif member == "scores":
        content = dict.fromkeys(row, 0.5)
    line = {"text": "word", member if member != "labels" else "answer": content}

    def named(answer: Any) -> set[str]:
        if member == "candidates":
            return set(answer["candidates"][0]["labels"])
        return set(answer[member])

    body = json.dumps(line).encode()
    sent = PredictionRequest.model_validate({"document": {"text": "word", member: content}})
    from_file = document_in(body, answered=True)
    assert not isinstance(from_file, BadLine), where
    taken = []
    for document in (sent.as_document(), from_file):
        faults = document.faults()
        assert all(fault.pointer.startswith("/document/") and fault.detail for fault in faults)
        taken.append(not faults)
        if not faults:
            assert named(document.answer) == meant, where
            assert "" not in meant, where
    gold = packed(folder / "gold.jsonl", json.dumps({"id": "a", "labels": row}), rng)
    listed = packed(folder / "labels.txt", "".join(f"{one_line(n)}\n" for n in case.names), rng)

    def answered() -> set[str]:
        parsed = parse_document("a.jsonl", 1, body, external=True)
        assert parsed is not None
        assert parsed.answer is not None
        assert "" not in parsed.answer.labels(), where
        return parsed.answer.labels()

    readers: tuple[tuple[Callable[[], Iterable[str]], set[str]], ...] = (
        (answered, meant),
        (lambda: read_gold(gold)["a"], meant),
        (lambda: read_names(listed, "label"), set(map(spelled, case.names))),
    )
    for read, right in readers:
        refusal = None
        try:
            assert set(read()) == right, where
        except DataError as error:
            refusal = error
        if refusal is not None:
            check_refusal(refusal, where)
        taken.append(refusal is None)
    assert set(DocumentFilter(labels=row).labels) == meant, where
    rules, rule_faults = read_rules([{"kind": "at_most", "n": 1, "labels": row}])
    assert all(fault.pointer.startswith("/rules/0") for fault in rule_faults), where
    if not rule_faults:
        (rule,) = rules
        assert isinstance(rule, AtMostRule)
        assert set(rule.labels or ()) == meant, where
    return all(taken)


MADE = [pytest.param(60, id="60"), pytest.param(9_200, marks=pytest.mark.verify, id="9200")]


@pytest.mark.parametrize("n", MADE)
@pytest.mark.parametrize("name", FORMATS)
def test_labels_in_files_are_read_as_meant_or_refused(tmp_path: Path, name: str, n: int) -> None:
    read = sum(check_format(name, seed, tmp_path) for seed in range(n))
    assert read > n / 4


@pytest.mark.parametrize("n", MADE)
def test_labels_at_doors_are_read_as_meant_or_refused(tmp_path: Path, n: int) -> None:
    taken = sum(check_doors(seed, tmp_path) for seed in range(n))
    assert taken > n / 4
