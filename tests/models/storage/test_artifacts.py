"""Artifacts: what is saved comes back, and nothing that was touched is loaded."""

import dataclasses
import hashlib
import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import safetensors.numpy
import xgboost

from setwise.models.calibration.choice import choose_calibrator
from setwise.models.options import CALIBRATORS, TrainingOptions
from setwise.models.storage import sealed_folder
from setwise.models.storage.artifacts import (
    _versions,
    content_versions,
    load,
    read_calibration_rows,
    save,
    verify_artifact,
)
from setwise.models.storage.sealed_folder import MANIFEST, ArtifactError, sealed
from setwise.models.training import assemble, fit_base
from tests.models.corpora import texts, vectors

QUICK = TrainingOptions(preset="paper", alpha=1e-3, calibrator="boosted-logistic")


@pytest.fixture
def of_vectors(model_of):
    return model_of(vectors(), QUICK)


@pytest.fixture
def of_texts(model_of):
    return model_of(texts(), TrainingOptions(preset="paper", alpha=1e-3))


@pytest.fixture
def folder(of_vectors, tmp_path):
    save(of_vectors, tmp_path / "model")
    return tmp_path / "model"


def assert_equal_predictions(first, second):
    assert (first.confidence == second.confidence).all()
    assert (first.marginals == second.marginals).all()
    assert (first.candidates.labels == second.candidates.labels).all()
    assert (first.known_features == second.known_features).all()


# What is saved comes back


@pytest.fixture(scope="module")
def base():
    return fit_base(vectors(), QUICK)


@pytest.mark.parametrize(
    ("method", "calibrator"),
    [*(("br-rerank", calibrator) for calibrator in CALIBRATORS), ("br", "boosted-logistic")],
)
def test_vectors_predict_bit_for_bit_as_before(tmp_path, calibrator, method, base):
    options = dataclasses.replace(QUICK, calibrator=calibrator, method=method)
    predictor = assemble(vectors(), base, choose_calibrator(base.rows, options), options)
    assert predictor.manifest["training"]["calibrator_chosen"] == calibrator
    save(predictor, tmp_path / "model")
    again = load(tmp_path / "model")
    X = vectors(seed=1).X
    assert_equal_predictions(again.predict(X), predictor.predict(X))
    assert again.label_names == predictor.label_names
    assert again.feature_names == predictor.feature_names
    assert again.manifest == predictor.manifest


def test_versions_are_the_contents(of_vectors, folder, tmp_path):
    again = load(folder)
    assert len(again.version) == len(again.calibrator_version) == 12
    assert (again.version, again.calibrator_version) == (
        of_vectors.version,
        of_vectors.calibrator_version,
    )
    save(again, tmp_path / "second")
    for path in folder.iterdir():
        assert (tmp_path / "second" / path.name).read_bytes() == path.read_bytes()


def test_the_manifest_lists_the_promised_facts(folder):
    manifest = verify_artifact(folder)
    assert manifest["format"] == "setwise-artifact"
    assert manifest["format_version"] == 1
    assert manifest["label_names"] == [f"label {i}" for i in range(5)]
    assert {"training", "data", "metrics", "libraries", "created_at"} <= set(manifest)
    assert set(manifest["files"]) == {path.name for path in folder.iterdir()} - {MANIFEST}


def test_xgboost_opens_the_trees(of_vectors, folder):
    booster = xgboost.Booster()
    booster.load_model(folder / "set_calibrator.xgboost.json")
    assert booster.num_boosted_rounds() == of_vectors.calibrator.trees_.n_trees


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        TrainingOptions(preset="fast", n_folds=2, alpha=1e-3),
        TrainingOptions(method="cbm", n_folds=2, alpha=1e-3, n_components=2, optimize="f1"),
    ],
    ids=lambda options: options.method,
)
def test_loading_and_predicting_import_nothing_that_learns(model_of, options, tmp_path):
    save(model_of(texts(), options), tmp_path / "model")
    script = (
        "import sys, setwise\n"
        f"setwise.load({str(tmp_path / 'model')!r}).predict_texts(['fever'])\n"
        "print(*sys.modules)\n"
    )
    process = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    learning = {
        "joblib",
        "pandas",
        "pyarrow",
        "scipy.optimize",
        "scipy.stats",
        "sklearn",
        "xgboost",
    }
    assert not learning & set(process.stdout.decode().split())


# Saving: all of it or nothing


def test_a_taken_folder_is_not_overwritten_unless_asked(of_vectors, of_texts, folder):
    with pytest.raises(ArtifactError, match="not empty"):
        save(of_texts, folder)
    assert load(folder).version == of_vectors.version
    save(of_texts, folder, overwrite=True)
    assert load(folder).version == of_texts.version
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_folder_with_other_things_is_never_replaced(of_vectors, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ArtifactError, match="neither empty nor an artifact"):
        save(of_vectors, tmp_path, overwrite=True)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_an_empty_folder_is_filled(of_vectors, tmp_path):
    (tmp_path / "model").mkdir()
    save(of_vectors, tmp_path / "model")
    verify_artifact(tmp_path / "model")


@pytest.mark.parametrize("target", ["file", "link"])
def test_a_file_or_link_in_the_way_is_refused(of_vectors, tmp_path, target):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ArtifactError, match="file or a link"):
        save(of_vectors, tmp_path / target, overwrite=True)


def test_a_missing_parent_is_refused(of_vectors, tmp_path):
    with pytest.raises(ArtifactError, match="its parent is no folder"):
        save(of_vectors, tmp_path / "no" / "model")


@pytest.mark.parametrize("nth", [0, 3, 7])
def test_a_failure_while_writing_leaves_nothing_behind(of_vectors, tmp_path, monkeypatch, nth):
    written = []
    genuine = sealed_folder._write

    def failing(path, content):
        if len(written) == nth:
            raise OSError("disk full")
        written.append(path)
        genuine(path, content)

    monkeypatch.setattr(sealed_folder, "_write", failing)
    with pytest.raises(OSError, match="disk full"):
        save(of_vectors, tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_failure_while_replacing_leaves_the_old_model(of_vectors, of_texts, folder, monkeypatch):
    def failing(path, content):
        raise OSError("disk full")

    monkeypatch.setattr(sealed_folder, "_write", failing)
    with pytest.raises(OSError, match="disk full"):
        save(of_texts, folder, overwrite=True)
    assert load(folder).version == of_vectors.version


# Tampering


def assert_refused(folder, match=None):
    for read in (load, verify_artifact):
        with pytest.raises(ArtifactError, match=match) as refusal:
            read(folder)
        assert "\n" not in str(refusal.value)
        assert str(folder) in str(refusal.value)


def test_a_changed_cut_or_missing_file_is_named(folder):
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        places = np.unique(np.linspace(0, len(content) - 1, 8).astype(int))
        for place in places:
            changed = bytearray(content)
            changed[place] ^= 0x01
            path.write_bytes(changed)
            assert_refused(folder, path.name)
        for kept in (0, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:kept])
            assert_refused(folder, path.name)
        path.unlink()
        assert_refused(folder, f"{path.name}: missing")
        path.write_bytes(content)
    load(folder)  # restored, it is sound again


def test_blank_space_in_the_manifest_is_a_change_too(folder):
    path = folder / MANIFEST
    path.write_bytes(path.read_bytes() + b"\n")
    assert_refused(folder, "damaged; it does not match its own checksum")


def test_a_pickle_is_refused_and_never_run(folder, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "exploded"),))

    (folder / "base.pkl").write_bytes(pickle.dumps(Bomb()))
    assert_refused(folder, "base.pkl: not part of the artifact")
    (folder / "base.pkl").unlink()
    replace(folder, "base.safetensors", pickle.dumps(Bomb()))
    with pytest.raises(ArtifactError, match=r"base\.safetensors: is no safetensors file"):
        load(folder)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("name", ["notes.txt", "base.json.bak", "folder"])
def test_foreign_entries_are_named(folder, name):
    if name == "folder":
        (folder / name).mkdir()
    else:
        (folder / name).touch()
    assert_refused(folder, f"{name}: not part of the artifact")


def test_a_link_in_place_of_a_file_is_refused(folder, tmp_path):
    for name in ("base.safetensors", MANIFEST):
        moved = tmp_path / f"elsewhere-{name}"
        (folder / name).rename(moved)
        (folder / name).symlink_to(moved)
        assert_refused(folder, f"{name}: cannot be read: is a link")
        (folder / name).unlink()
        moved.rename(folder / name)


def test_a_pipe_in_place_of_a_file_is_refused_without_waiting(folder):
    (folder / "base.json").unlink()
    os.mkfifo(folder / "base.json")
    assert_refused(folder, "base.json: is no regular file")


def test_other_folders_are_refused(tmp_path):
    assert_refused(tmp_path, "missing; this folder is no artifact")
    assert_refused(tmp_path / "nowhere", "is no folder")
    (tmp_path / MANIFEST).write_text('{"name": "a web page", "manifest_version": 3}')
    assert_refused(tmp_path, "is not the manifest")
    for odd in ("[]", "{", "", "[" * 100_000, '"\\ud800"', "nan"):
        (tmp_path / MANIFEST).write_text(odd)
        assert_refused(tmp_path, "manifest")


# Manifests that are sealed correctly but lie: somebody wrote them on purpose


def reseal(folder, change):
    manifest = json.loads((folder / MANIFEST).read_bytes())
    del manifest["manifest_sha256"]
    change(manifest)
    digests = {name: entry["sha256"] for name, entry in manifest["files"].items()}
    manifest["version"], manifest["calibrator_version"] = _versions(digests)
    (folder / MANIFEST).write_bytes(sealed(manifest))


def replace(folder, name, content):
    """Put other content in a file and bring the manifest in line."""
    (folder / name).write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    reseal(folder, lambda m: m["files"].update({name: {"bytes": len(content), "sha256": digest}}))


def test_another_format_version_says_what_to_do(folder):
    reseal(folder, lambda manifest: manifest.update(format_version=2))
    assert_refused(folder, "has format version 2, this release reads 1; train again")


@pytest.mark.parametrize(
    "name", ["../outside.json", "/etc/passwd", "sub/base.json", "base.pkl", "..", "manifest.json"]
)
def test_names_that_leave_the_folder_are_refused(folder, name):
    entry = {"bytes": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    reseal(folder, lambda manifest: manifest["files"].update({name: entry}))
    assert_refused(folder, "no name of an artifact's file")


@pytest.mark.parametrize("entry", [None, {}, {"bytes": "9", "sha256": ""}, {"bytes": 3}])
def test_listings_without_size_or_checksum_are_refused(folder, entry):
    manifest = json.loads((folder / MANIFEST).read_bytes())
    del manifest["manifest_sha256"]
    manifest["files"]["base.json"] = entry
    (folder / MANIFEST).write_bytes(sealed(manifest))
    assert_refused(folder, "without size and checksum")


def test_versions_that_are_not_the_files_are_refused(folder):
    manifest = json.loads((folder / MANIFEST).read_bytes())
    del manifest["manifest_sha256"]
    (folder / MANIFEST).write_bytes(sealed({**manifest, "version": "0" * 12}))
    assert_refused(folder, "its versions are not those of its files")


def test_a_listed_file_that_no_part_needs_is_refused(folder):
    replace(folder, "extra.json", b"{}\n")
    with pytest.raises(ArtifactError, match=r"extra.json: belongs to no part"):
        load(folder)


@pytest.mark.parametrize(
    ("file", "name", "value"),
    [
        ("base.safetensors", "coef_indices", 2**30),
        ("base.safetensors", "coef_indices", -1),
        ("base.safetensors", "coef_indptr", 2**40),
        ("label_calibrator.safetensors", "knot_indptr", 2**40),
        ("set_features.safetensors", "prior.labels", 2**30),
        ("set_features.safetensors", "prior.set_indptr", -(2**40)),
        ("base.safetensors", "intercept", np.nan),
    ],
)
def test_indices_that_compiled_code_would_follow_out_of_bounds_are_refused(
    folder, file, name, value
):
    arrays = {k: v.copy() for k, v in safetensors.numpy.load((folder / file).read_bytes()).items()}
    arrays[name][len(arrays[name]) // 2] = value
    replace(folder, file, safetensors.numpy.save(arrays))
    with pytest.raises(ArtifactError, match=rf"part '{file.split('.')[0]}' does not fit: array"):
        load(folder)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.json", b"[]"),
        ("model.json", b"{}"),
        ("base.json", b'{"params": {"exec": "rm"}, "scheme": "none"}'),
        ("source.json", b'{"k": "many"}'),
        ("set_calibrator.json", b'{"kind": "os.system"}'),
        ("set_calibrator.json", b'{"kind": "isotonic"}'),
        ("set_calibrator.xgboost.json", b'{"learner": 3}'),
        ("set_features.json", b'{"order": ["score", "os"], "groups": {}, "n_labels": 5}'),
        ("label_calibrator.json", b"null"),
    ],
)
def test_settings_that_make_no_part_are_refused(folder, file, content):
    replace(folder, file, content)
    with pytest.raises(ArtifactError) as refusal:
        load(folder)
    assert "\n" not in str(refusal.value)


def test_labels_other_than_the_manifests_are_refused(folder):
    reseal(folder, lambda manifest: manifest["label_names"].reverse())
    with pytest.raises(ArtifactError, match="labels are not the manifest's"):
        load(folder)


def test_parts_of_another_model_are_refused(folder, tmp_path, model_of):
    save(model_of(vectors(n_labels=4), QUICK), tmp_path / "other")
    for part in ("base", "label_calibrator", "set_features", "set_calibrator"):
        names = [path.name for path in folder.iterdir() if path.name.startswith(f"{part}.")]
        own = {name: (folder / name).read_bytes() for name in names}
        for name in names:
            replace(folder, name, (tmp_path / "other" / name).read_bytes())
        with pytest.raises(ArtifactError):
            load(folder)
        for name, content in own.items():
            replace(folder, name, content)
    load(folder)


def test_the_rows_that_a_model_was_calibrated_on_travel_with_it(of_vectors, folder):
    kept, own = read_calibration_rows(folder), of_vectors.calibration_rows
    assert (kept.sets.confidence == own.sets.confidence).all()
    assert (kept.right == own.right).all()
    metrics = of_vectors.manifest["metrics"]
    assert kept.right.mean() == pytest.approx(metrics["set_accuracy"])
    brier = np.mean((kept.sets.confidence - kept.right) ** 2)
    assert brier == pytest.approx(metrics["brier"])
    assert len(load(folder).calibration_rows) == len(kept)


def test_rows_decide_nothing_so_versions_do_not_depend_on_them(of_vectors, tmp_path):
    without = dataclasses.replace(of_vectors, calibration_rows=None)
    assert content_versions(without) == content_versions(of_vectors)
    save(without, tmp_path / "older")
    assert read_calibration_rows(tmp_path / "older") is None
    older = load(tmp_path / "older")
    assert older.calibration_rows is None
    assert older.version == of_vectors.version


def test_rows_of_another_model_are_refused(of_vectors, tmp_path):
    rows = of_vectors.calibration_rows
    foreign = dataclasses.replace(rows.sets, n_labels=rows.sets.n_labels + 1)
    mixed = dataclasses.replace(
        of_vectors, calibration_rows=dataclasses.replace(rows, sets=foreign)
    )
    save(mixed, tmp_path / "mixed")
    with pytest.raises(ArtifactError, match="calibration_rows"):
        load(tmp_path / "mixed")
