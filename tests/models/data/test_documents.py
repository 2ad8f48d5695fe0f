"""JSON Lines in: what is read, and the exact words of every refusal."""

import gzip
import json
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from setwise.models.data.dataset_files import read_dataset
from setwise.models.data.documents import parse_document, read_documents
from setwise.models.data.lines import DataError, DataWarning, read_lines

GOOD = {"id": "a", "text": "Fever and cough.", "labels": ["x", "y"]}


def write(folder, *records, name="notes.jsonl"):
    path = folder / name
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def without(key):
    return {name: value for name, value in GOOD.items() if name != key}


def test_documents_are_read_as_written(tmp_path):
    second = {
        "id": "b",
        "text": "Ünïcode…",
        "labels": [],
        "annotator": "kim",
        "metadata": {"ward": 3},
    }
    documents = read_documents(write(tmp_path, GOOD, second))
    assert documents.ids == ["a", "b"]
    assert documents.texts == ["Fever and cough.", "Ünïcode…"]
    assert documents.labels == [("x", "y"), ()]
    assert documents.annotators == [None, "kim"]


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        (without("id"), "'id' is missing"),
        (without("text"), "'text' is missing"),
        (without("labels"), "'labels' is missing"),
        (GOOD | {"id": 7}, "'id' is a number"),
        (GOOD | {"id": " "}, "'id' is empty"),
        (GOOD | {"text": None}, "'text' is null"),
        (GOOD | {"text": ["a"]}, "'text' is a list"),
        (GOOD | {"labels": "x"}, "'labels' is a string"),
        (GOOD | {"labels": ["x", 2]}, "label 2 is a number"),
        (GOOD | {"labels": [True]}, "label 1 is a boolean"),
        (GOOD | {"labels": [""]}, "'label 1' is empty"),
        (GOOD | {"labels": ["a\0"]}, "'label 1' holds a NUL character"),
        (GOOD | {"labels": ["\ud800"]}, "'label 1' holds half a surrogate pair"),
        (GOOD | {"label": ["x"]}, "unknown key 'label'"),
        (GOOD | {"annotator": 4}, "'annotator' is a number"),
        (GOOD | {"metadata": []}, "'metadata' is a list"),
        ("{'id': 1}", "not JSON (column 2: Expecting property name enclosed in double quotes)"),
        ('{"id": "a"', "not JSON (column 11: Expecting ',' delimiter)"),
        ("[1]", "the JSON here is a list"),
        ("3", "the JSON here is a number"),
        ("[" * 100_000, "JSON beyond reading"),
        ('{"id": ' + "9" * 5000 + "}", "JSON beyond reading"),
    ],
)
def test_a_bad_line_is_named_with_its_fault_and_a_cure(tmp_path, record, fault):
    path = write(tmp_path, GOOD | {"id": "first"}, "", record)
    with pytest.raises(DataError) as error:
        read_documents(path)
    assert error.value.line == 3
    assert str(error.value).startswith(f"{path}, line 3: {fault}")
    assert re.search(r"; \S", str(error.value))
    assert "\n" not in str(error.value)


def test_a_repeated_id_names_both_lines(tmp_path):
    path = write(tmp_path, GOOD, GOOD | {"id": "b"}, GOOD)
    with pytest.raises(DataError, match=r"line 3: id 'a' is on line 1 already"):
        read_documents(path)


def test_bytes_that_are_not_utf8_are_named(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b'\n{"id": "\xe9"}\n')
    with pytest.raises(DataError, match=r"line 2: byte 9 \(0xe9\) is not UTF-8; save the file as"):
        read_documents(path)


def test_a_byte_order_mark_does_no_harm(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n")
    assert read_documents(path).ids == ["a"]


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_a_file_without_documents_is_refused(tmp_path, content):
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    with pytest.raises(DataError, match="holds no documents; give one JSON object a line"):
        read_documents(path)


def test_a_byte_order_mark_may_stand_before_any_line(tmp_path):
    lines = [json.dumps(GOOD | {"id": id_}) for id_ in "ab"]
    (tmp_path / "a.jsonl").write_text("".join(f"\ufeff{line}\r" for line in lines), newline="")
    assert len(read_documents(tmp_path / "a.jsonl").ids) == 2


@pytest.mark.parametrize("nested", ["[" * 100_000, '{"a":' * 100_000])
def test_json_that_is_nested_too_deeply_is_refused(tmp_path, nested):
    (tmp_path / "a.jsonl").write_text(nested)
    for read in (read_documents, read_dataset):
        with pytest.raises(DataError, match="line 1: JSON beyond reading"):
            read(tmp_path / "a.jsonl")


@pytest.mark.parametrize("name", [" x", "x\u00a0", "\u200bx"])
def test_features_and_labels_have_one_spelling(tmp_path, name):
    record = {"id": "a", "features": {name: 1}, "labels": [name, "x"]}
    with pytest.warns(DataWarning, match="a label is repeated"):
        documents = read_documents(write(tmp_path, record))
    assert (documents.features, documents.labels) == ([{"x": 1.0}], [("x",)])
    record["features"]["x"] = 2
    with pytest.raises(DataError, match="feature 'x' is given twice, in two spellings; give each"):
        read_documents(write(tmp_path, record))


def test_an_object_that_repeats_a_key_is_refused(tmp_path):
    line = '{"id": "a", "text": "x", "labels": ["y"], "labels": []}'
    with pytest.raises(DataError, match="line 1: 'labels' is given twice; give each name once"):
        read_documents(write(tmp_path, line))


def test_a_repeated_label_is_merged_with_one_warning(tmp_path):
    path = write(tmp_path, GOOD, GOOD | {"id": "b", "labels": ["y", "x", "y"]})
    with pytest.warns(
        DataWarning, match=r"label is repeated in 1 document \(first on line 2\)"
    ) as seen:
        documents = read_documents(path)
    assert documents.labels[1] == ("y", "x")
    assert len(seen) == 1


def test_documents_without_words_are_kept_with_one_warning(tmp_path):
    records = [GOOD | {"id": str(i), "text": text} for i, text in enumerate(["", "?!", "ok"])]
    with pytest.warns(DataWarning, match=r"no words in 2 documents \(first on line 1\)") as seen:
        documents = read_documents(write(tmp_path, *records))
    assert documents.texts == ["", "?!", "ok"]
    assert len(seen) == 1


@pytest.mark.parametrize("kept", [0.5, 0.99])
def test_a_gzip_file_cut_short_is_refused(tmp_path, kept):
    path = tmp_path / "a.jsonl.gz"
    lines = "".join(json.dumps(GOOD | {"id": str(i)}) + "\n" for i in range(5000))
    whole = gzip.compress(lines.encode())
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(
        DataError, match=r"a\.jsonl\.gz, line \d+: the gzip stream ends early; copy"
    ):
        read_documents(path)


def test_a_corrupt_gzip_file_is_refused(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    content = bytearray(gzip.compress(json.dumps(GOOD).encode() + b"\n"))
    content[-6] ^= 0xFF  # the checksum
    path.write_bytes(content)
    with pytest.raises(DataError, match="the gzip stream is corrupt"):
        read_documents(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(DataError, match="nowhere: no such file; check the path"):
        read_documents(tmp_path / "nowhere")
    with pytest.raises(DataError, match="this is a folder"):
        read_documents(tmp_path)


def test_gzip_is_told_by_content_not_by_name(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(gzip.compress(json.dumps(GOOD).encode()))
    assert read_documents(path).ids == ["a"]


def test_progress_never_falls_and_ends_at_one(tmp_path):
    path = write(tmp_path, *(GOOD | {"id": str(i)} for i in range(5000)))
    told = []
    read_dataset(path, progress=told.append)
    assert len(told) > 2
    assert told == sorted(told)
    assert told[-1] == 1.0


# --- documents to predict ---------------------------------------------------------------------


def to_predict(path):
    for number, line in read_lines(path):
        document = parse_document(path, number, line)
        if document is not None:
            yield number, document


def test_texts_features_and_labelled_documents_can_be_predicted(tmp_path):
    path = write(tmp_path, {"text": "a"}, "", {"id": "7", "features": {"x": 1, "y": -0.5}}, GOOD)
    found = [(number, d.id, d.text, d.features) for number, d in to_predict(path)]
    assert found == [
        (1, None, "a", None),
        (3, "7", None, {"x": 1.0, "y": -0.5}),
        (4, "a", "Fever and cough.", None),
    ]


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ({"id": "a"}, "no 'text' or 'features'"),
        ({"text": "a", "features": {}}, "both 'text' and 'features'"),
        ({"text": 1}, "'text' is a number"),
        ({"id": None, "text": ""}, "'id' is null"),
        ({"id": "a\0b", "text": ""}, "'id' holds a NUL character"),
        ({"features": [1]}, "'features' is a list"),
        ({"features": {"x": "1"}}, "feature 'x' is a string"),
        ({"features": {"x": True}}, "feature 'x' is a boolean"),
        ('{"features": {"x": NaN}}', "feature 'x' is not a finite 32-bit number"),
        ('{"features": {"x": -Infinity}}', "feature 'x' is not a finite 32-bit number"),
        ('{"features": {"x": 1e39}}', "feature 'x' is not a finite 32-bit number"),
        ('{"features": {"x": 1' + "0" * 400 + "}}", "feature 'x' is not a finite 32-bit number"),
        ({"texts": "a"}, "unknown key 'texts'"),
    ],
)
def test_a_bad_document_to_predict_is_named(tmp_path, record, fault):
    lines = to_predict(write(tmp_path, {"text": "good"}, record))
    assert next(lines)[0] == 1
    with pytest.raises(DataError, match=r"line 2: " + re.escape(fault)):
        next(lines)


def refusal(path):
    try:
        list(to_predict(path))
    except DataError as error:
        return str(error)
    return None


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_value_of_any_key_is_read_or_refused_in_one_line(tmp_path_factory, value):
    folder = tmp_path_factory.mktemp("any")
    for key in ("id", "text", "features", "labels"):
        path = write(folder, {"text": "a"} | {key: value} if key != "features" else {key: value})
        message = refusal(path)
        assert message is None or len(message.splitlines()) == 1


def test_reading_to_predict_holds_a_small_part_of_the_file(tmp_path):
    path = write(tmp_path, *({"text": "word " * 200} for _ in range(5000)))
    tracemalloc.start()
    try:
        for _ in to_predict(path):
            pass
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < path.stat().st_size / 20


def test_labelled_documents_may_be_features_but_are_all_alike(tmp_path):
    one = {"id": "a", "features": {"x": 1, "y": 0}, "labels": ["l"]}
    dataset = read_dataset(write(tmp_path, one, one | {"id": "b", "features": {"y": -0.5}}))
    assert (dataset.kind, dataset.feature_names) == ("vectors", ("x", "y"))
    assert dataset.X.toarray().tolist() == [[1.0, 0.0], [0.0, -0.5]]
    both = one | {"id": "b", "text": "t"}
    for other, fault in ((GOOD, "'features' is missing"), (both, "both 'text' and 'features'")):
        with pytest.raises(DataError, match=fault):
            read_dataset(write(tmp_path, one, other))
