"""Multi-label svmlight: equal to scikit-learn's reader on good files, exact words on bad ones."""

import gzip
import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from setwise.models.data.lines import DataError
from setwise.models.data.svmlight import read_svmlight


def write(folder, content):
    path = folder / "a.svm"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_labels_features_and_comments_are_read(tmp_path):
    X, labels = read_svmlight(
        write(tmp_path, "# a comment\n2,0 1:0.5 3:-1e-3\n 2:1 # none\r\n1\n \n"), n_labels=3
    )
    assert labels == [(0, 2), (), (1,), ()]
    expected = np.array([[0.5, 0, -1e-3], [0, 1, 0], [0, 0, 0], [0, 0, 0]])
    assert X.dtype == np.float64
    assert X.indices.dtype == np.int32
    np.testing.assert_array_equal(X.toarray(), expected)


def test_an_empty_label_set_may_lack_its_space(tmp_path):
    X, labels = read_svmlight(write(tmp_path, "1:2 2:3\n"), n_labels=1)
    assert labels == [()]
    np.testing.assert_array_equal(X.toarray(), [[2, 3]])


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("", "an empty line"),
        ("0,3 1:1", "label 3, but labels.txt ends at label 2"),
        ("-1 1:1", "negative label -1"),
        ("a 1:1", "'a' is not a list of label numbers"),
        ("1,,2 1:1", "'1,,2' is not a list of label numbers"),
        ("1.0 1:1", "'1.0' is not a list of label numbers"),
        ("9" * 5000 + " 1:1", "'" + "9" * 60 + "' is not a list of label numbers"),
        ("0 0:1", "feature index 0"),
        ("0 -2:1", "feature index -2"),
        ("0 2:1 1:1", "feature 1 comes after feature 2"),
        ("0 1:1 1:2", "feature 1 is given twice"),
        ("0 5:1", "feature 5, but there are 4 features"),
        ("0 " + "9" * 5000 + ":1", "'" + "9" * 60 + "…' is not index:value"),
        ("0 1:nan", "the value in '1:nan' is not finite"),
        ("0 1:-inf", "the value in '1:-inf' is not finite"),
        ("0 1:1e39", "the value in '1:1e39' is not finite"),
        ("0 1:1_0", "the value in '1:1_0' is no number"),
        ("0 1:1e", "the value in '1:1e' is no number"),
        ("0 1:1.2.3", "the value in '1:1.2.3' is no number"),
        ("0 1:", "'1:' is not index:value"),
        ("0 1", "'1' is not index:value"),
        ("0 :1", "':1' is not index:value"),
        ("0 1:2:3 4", "the value in '1:2:3' is no number"),
        ("0 qid:1 1:1", "'qid:1' is not index:value"),
        ("0 1:1\x0b2:1", "not svmlight"),
    ],
)
def test_a_bad_line_is_named_with_its_fault_and_a_cure(tmp_path, line, fault):
    path = write(tmp_path, f"0 1:1\n{line}\n1 1:1\n")
    with pytest.raises(DataError) as error:
        read_svmlight(path, n_labels=3, n_features=4)
    assert error.value.line == 2
    assert str(error.value).startswith(f"{path}, line 2: {fault}")
    assert re.search(r"; \S", str(error.value))


def test_bytes_that_are_not_utf8_are_named(tmp_path):
    with pytest.raises(DataError, match=r"line 1: byte 4 \(0xff\) is not UTF-8"):
        read_svmlight(write(tmp_path, b"0 1:\xff\n"), n_labels=1)


@pytest.mark.parametrize("content", ["", "# nothing\n"])
def test_a_file_without_documents_is_refused(tmp_path, content):
    with pytest.raises(DataError, match="holds no documents"):
        read_svmlight(write(tmp_path, content), n_labels=1)


ROWS = st.lists(
    st.tuples(
        st.sets(st.integers(0, 4)),
        st.dictionaries(
            st.integers(1, 30), st.floats(width=32, allow_nan=False, allow_infinity=False)
        ),
    ),
    min_size=1,
)


@given(ROWS)
def test_what_is_written_is_read_back_exactly(tmp_path_factory, rows):
    lines = [
        ",".join(map(str, sorted(labels)))
        + "".join(f" {index}:{value!r}" for index, value in sorted(features.items()))
        + (" " if not (labels or features) else "")
        for labels, features in rows
    ]
    path = write(tmp_path_factory.mktemp("rows"), "\n".join(lines) + "\n")
    X, labels = read_svmlight(path, n_labels=5, n_features=30)
    expected = np.zeros((len(rows), 30))
    for row, (_, features) in enumerate(rows):
        for index, value in features.items():
            expected[row, index - 1] = value
    np.testing.assert_array_equal(X.toarray(), expected)
    assert labels == [tuple(sorted(found)) for found, _ in rows]


NUMBERS = st.from_regex(
    r"[-+]?([0-9]{1,18}(\.[0-9]{0,18})?|\.[0-9]{1,18})([eE][-+]?[0-9]{1,3})?", fullmatch=True
)


@given(st.lists(NUMBERS, min_size=1, max_size=5))
def test_every_way_to_write_a_number_reads_as_python_does(tmp_path_factory, numbers):
    values = np.array([float(number) for number in numbers])
    assume(np.all(np.abs(values) <= np.finfo(np.float32).max))
    row = " ".join(f"{index}:{number}" for index, number in enumerate(numbers, 1))
    path = write(tmp_path_factory.mktemp("numbers"), f"0 1:1\n0\t{row}\n0 1:2\n")
    X, _ = read_svmlight(path, n_labels=1)
    np.testing.assert_array_equal(X[[1]].toarray().ravel(), values)
    assert X[[2]].nnz == 1


def test_the_first_fault_is_told_whichever_field_it_is_in(tmp_path):
    for later in ("9 1:1", "", "0 1:x"):
        with pytest.raises(DataError, match="line 2: feature index 0"):
            read_svmlight(write(tmp_path, f"0 1:1\n0 0:1\n{later}\n"), n_labels=1)


@pytest.mark.data
@pytest.mark.parametrize("name", ["bibtex", "yeast"])
def test_real_files_are_read_as_by_scikit_learn(data_dir, tmp_path, name):
    path = tmp_path / "plain.svm"
    path.write_bytes(gzip.decompress((data_dir / name / "test.svm.gz").read_bytes()))
    X, labels = read_svmlight(data_dir / name / "test.svm.gz", n_labels=159)
    theirs, their_labels = load_svmlight_file(str(path), multilabel=True, zero_based=False)
    assert labels == [tuple(map(int, row)) for row in their_labels]
    np.testing.assert_array_equal(X.toarray(), theirs.toarray())
