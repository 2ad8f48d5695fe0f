"""Data sets: folders, names, splits, and data that teach too little."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pytest

from setwise.models.data.dataset_files import check_trainable, read_dataset
from setwise.models.data.datasets import concatenate_datasets
from setwise.models.data.lines import DataError, DataWarning
from tests.models.corpora import vectors


def write_texts(path, label_sets):
    records = [
        {"id": f"d{i}", "text": f"note {i}", "labels": labels}
        for i, labels in enumerate(label_sets)
    ]
    content = "".join(json.dumps(record) + "\n" for record in records).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_vectors(folder, lines, *, labels=("x", "y"), features=None, name="train.svm"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(line + "\n" for line in lines))
    (folder / "labels.txt").write_text("".join(label + "\n" for label in labels))
    if features is not None:
        (folder / "features.txt").write_text("".join(feature + "\n" for feature in features))
    return folder / name


def test_texts_become_a_label_matrix_over_sorted_names(tmp_path):
    dataset = read_dataset(write_texts(tmp_path / "a.jsonl", [["b", "a"], [], ["c"]]))
    assert dataset.kind == "text"
    assert dataset.n == 3
    assert dataset.label_names == ("a", "b", "c")
    assert dataset.Y.dtype == np.uint8
    np.testing.assert_array_equal(dataset.Y.toarray(), [[1, 1, 0], [0, 0, 0], [0, 0, 1]])
    assert dataset.texts == ("note 0", "note 1", "note 2")
    assert dataset.annotators is None


def test_vectors_take_their_names_from_the_files_beside_them(tmp_path):
    path = write_vectors(tmp_path / "d", ["1 2:3", " 1:1"], features=["u", "v", "w"])
    dataset = read_dataset(path)
    assert dataset.kind == "vectors"
    assert dataset.label_names == ("x", "y")
    assert dataset.feature_names == ("u", "v", "w")
    assert dataset.ids == ("1", "2")
    np.testing.assert_array_equal(dataset.X.toarray(), [[0, 3, 0], [1, 0, 0]])
    np.testing.assert_array_equal(dataset.Y.toarray(), [[0, 1], [0, 0]])


def test_features_without_names_are_numbered(tmp_path):
    assert read_dataset(write_vectors(tmp_path / "d", ["1 2:3"])).feature_names == ("1", "2")


def test_vectors_made_in_memory_are_numbered_too_and_pool_by_their_numbers():
    unnamed = replace(vectors(n=3), feature_names=None)
    assert unnamed.feature_names == tuple(map(str, range(1, 13)))
    assert concatenate_datasets(unnamed, unnamed).X.shape == (6, 12)
    with pytest.raises(ValueError, match="2 feature names for 12 columns"):
        replace(unnamed, feature_names=("a", "b"))


def test_the_fingerprint_is_of_the_content_not_of_its_packing(tmp_path):
    plain = read_dataset(write_texts(tmp_path / "a.jsonl", [["a"]]))
    packed = read_dataset(write_texts(tmp_path / "b.jsonl.gz", [["a"]]))
    other = read_dataset(write_texts(tmp_path / "c.jsonl", [["b"]]))
    assert plain.fingerprint == packed.fingerprint != other.fingerprint
    assert len(plain.fingerprint) == 64


def test_the_fingerprint_of_vectors_covers_their_names(tmp_path):
    first = read_dataset(write_vectors(tmp_path / "d", ["1 2:3"]))
    second = read_dataset(write_vectors(tmp_path / "e", ["1 2:3"], labels=("x", "z")))
    assert first.fingerprint != second.fingerprint


def test_a_folder_gives_the_part_asked_for(tmp_path):
    write_texts(tmp_path / "train.jsonl.gz", [["a"], ["b"]])
    write_texts(tmp_path / "test.jsonl", [["a"]])
    assert read_dataset(tmp_path, "train").n == 2
    assert read_dataset(tmp_path, "test").n == 1


def test_folders_that_do_not_answer_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"has no train part; add train\.jsonl or train\.jsonl\.gz"):
        read_dataset(tmp_path, "train")
    write_texts(tmp_path / "train.jsonl", [["a"]])
    with pytest.raises(DataError, match=r"this is a folder; name a \.jsonl or \.svm file"):
        read_dataset(tmp_path)
    write_texts(tmp_path / "train.jsonl.gz", [["a"]])
    with pytest.raises(DataError, match=r"both train\.jsonl and train\.jsonl\.gz are here"):
        read_dataset(tmp_path, "train")


def test_a_file_of_unknown_kind_is_refused(tmp_path):
    (tmp_path / "a.doc").write_text("")
    with pytest.raises(DataError, match=r"unknown kind of file; end its name in \.jsonl"):
        read_dataset(tmp_path / "a.doc")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, r"there is no labels\.txt beside it; name one label a line"),
        ("", r"labels\.txt: the file is empty"),
        ("x\n\ny\n", r"labels\.txt, line 2: no label name"),
        ("x\ny\nx\n", r"labels\.txt, line 3: the label 'x' is on line 1 already"),
    ],
)
def test_a_bad_list_of_labels_is_refused(tmp_path, content, fault):
    path = write_vectors(tmp_path / "d", ["0 1:1"])
    (tmp_path / "d" / "labels.txt").unlink()
    if content is not None:
        (tmp_path / "d" / "labels.txt").write_text(content)
    with pytest.raises(DataError, match=fault):
        read_dataset(path)


def test_labels_the_model_lacks_come_behind_its_own_and_are_named(tmp_path):
    path = write_texts(tmp_path / "a.jsonl", [["new", "b"], ["a"]])
    with pytest.warns(DataWarning, match="1 label unknown to the model, .* 'new'"):
        dataset = read_dataset(path, label_names=("b", "c", "a"))
    assert dataset.label_names == ("b", "c", "a", "new")
    np.testing.assert_array_equal(dataset.Y.toarray(), [[1, 0, 0, 1], [0, 0, 1, 0]])


def test_vectors_follow_the_labels_and_features_of_the_model(tmp_path):
    path = write_vectors(
        tmp_path / "d", ["0,1 1:1 2:2 3:3"], labels=("x", "y", "unused"), features=["u", "v", "w"]
    )
    with pytest.warns(DataWarning) as seen:
        dataset = read_dataset(path, label_names=("y", "z"), feature_names=("w", "q", "u"))
    assert [str(warning.message).split(": ", 1)[1] for warning in seen] == [
        "1 label unknown to the model, counted as misses: 'x'",
        "1 feature unknown to the model, left out: 'v'",
    ]
    assert dataset.label_names == ("y", "z", "x")
    assert dataset.feature_names == ("w", "q", "u")
    np.testing.assert_array_equal(dataset.Y.toarray(), [[1, 0, 1]])
    np.testing.assert_array_equal(dataset.X.toarray(), [[3, 0, 1]])
    assert dataset.X.has_sorted_indices


def test_vectors_with_oddities_are_kept_with_warnings(tmp_path):
    path = write_vectors(tmp_path / "d", ["0,0 1:1", "1 "])
    with pytest.warns(DataWarning) as seen:
        dataset = read_dataset(path)
    assert [str(warning.message).split(": ", 1)[1] for warning in seen] == [
        "a label is repeated in 1 document; merged",
        "there are no features in 1 document; kept",
    ]
    np.testing.assert_array_equal(dataset.Y.toarray(), [[1, 0], [0, 1]])


def test_taking_rows_keeps_names_and_tells_apart(tmp_path):
    dataset = read_dataset(write_texts(tmp_path / "a.jsonl", [["a"], ["b"], ["a", "b"]]))
    taken = dataset.take([2, 0])
    assert taken.ids == ("d2", "d0")
    assert taken.texts == ("note 2", "note 0")
    assert taken.label_names == dataset.label_names
    np.testing.assert_array_equal(taken.Y.toarray(), [[1, 1], [1, 0]])
    assert len({dataset.fingerprint, taken.fingerprint, dataset.take([0, 2]).fingerprint}) == 3


def test_parts_pool_into_one_data_set_with_the_columns_of_both(tmp_path):
    upper = read_dataset(write_texts(tmp_path / "a.jsonl", [["x"], ["y", "x"]]))
    lower = read_dataset(write_texts(tmp_path / "b.jsonl", [["w"], ["y"]]))
    pooled = concatenate_datasets(upper, lower)
    assert pooled.label_names == ("x", "y", "w")
    assert pooled.Y.toarray().tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 0]]
    assert pooled.texts == upper.texts + lower.texts
    assert len(set(pooled.ids)) == 4
    assert pooled.fingerprint != concatenate_datasets(lower, upper).fingerprint


def test_pooled_vectors_align_their_features_by_name(tmp_path):
    upper = read_dataset(write_vectors(tmp_path / "a", ["0 1:1 2:2", "1 2:3"], features=["f", "g"]))
    lower = read_dataset(write_vectors(tmp_path / "b", ["0,1 1:4 2:5"], features=["h", "f"]))
    pooled = concatenate_datasets(upper, lower)
    assert pooled.feature_names == ("f", "g", "h")
    assert pooled.X.toarray().tolist() == [[1, 2, 0], [0, 3, 0], [5, 0, 4]]
    assert pooled.X.has_sorted_indices
    with pytest.raises(ValueError, match="do not make one data set"):
        concatenate_datasets(upper, read_dataset(write_texts(tmp_path / "c.jsonl", [["x"]])))


def test_too_few_documents_are_refused(tmp_path):
    dataset = read_dataset(write_texts(tmp_path / "a.jsonl", [["a"], ["b"]]))
    with pytest.raises(DataError, match=r"a\.jsonl: only 2 documents; training needs at least 10"):
        check_trainable(dataset, tmp_path / "a.jsonl")


def test_documents_without_any_label_are_refused(tmp_path):
    dataset = read_dataset(write_texts(tmp_path / "a.jsonl", [[]] * 10))
    with pytest.raises(DataError, match="no document carries a label"):
        check_trainable(dataset, "a.jsonl")


def test_documents_without_any_word_are_refused(tmp_path):
    dataset = read_dataset(write_texts(tmp_path / "a.jsonl", [["a"]] * 10))
    silent = replace(dataset, texts=("?!",) * 10)
    with pytest.raises(DataError, match="no document holds a word"):
        check_trainable(silent, "a.jsonl")


def test_a_missing_file_is_called_missing(tmp_path):
    with pytest.raises(DataError, match="nowhere: no such file"):
        read_dataset(tmp_path / "nowhere")


def test_one_label_set_for_all_is_warned_of(tmp_path):
    dataset = read_dataset(write_texts(tmp_path / "a.jsonl", [["a", "b"]] * 10))
    with pytest.warns(DataWarning, match="every document carries the same label set"):
        check_trainable(dataset, "a.jsonl")


def test_labels_without_documents_are_warned_of(tmp_path):
    path = write_vectors(tmp_path / "d", ["0 1:1", "0,1 1:1"] * 5, labels=("x", "y", "z"))
    with pytest.warns(DataWarning, match="1 label on no document, .* 'z'"):
        check_trainable(read_dataset(path), path)


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["bibtex", "medical", "ohsumed", "reuters21578", "scene", "yeast", "tmc2007_500"]
)
@pytest.mark.filterwarnings("ignore:.*no features in:setwise.models.data.lines.DataWarning")
def test_real_data_sets_have_the_sizes_their_makers_state(data_dir, name):
    stated = json.loads((data_dir / name / "meta.json").read_text())
    train = read_dataset(data_dir / name, "train")
    test = read_dataset(data_dir / name, "test", label_names=train.label_names)
    assert (train.n, test.n) == (stated["n_train"], stated["n_test"])
    assert len(train.label_names) == len(test.label_names) == stated["n_labels"]
    cardinality = (train.Y.sum() + test.Y.sum()) / (train.n + test.n)
    assert cardinality == pytest.approx(stated["cardinality"], abs=1e-4)
    if train.X is not None:
        assert train.X.shape[1] == test.X.shape[1] == stated["n_features"]


def test_a_name_in_two_spellings_is_refused(tmp_path):
    dataset = read_dataset(write_vectors(tmp_path / "d", ["0 1:1", "1 2:1"]))
    for member, names, name in (
        ("label_names", ("fi\u00e8vre", "fie\u0300vre "), "label 'fi\u00e8vre'"),
        ("feature_names", ("f", "f\u00a0"), "feature 'f'"),
    ):
        with pytest.raises(ValueError, match=rf"the {name} is named twice, or in two spellings"):
            replace(dataset, **{member: names})
