"""Artifacts in a folder, and in an object store."""

import io
import json
import random
import shutil
import threading
import zipfile
from pathlib import Path

import fsspec
import numpy as np
import pytest

from setwise.models.calibration.recalibration import COLUMNS, ConfidenceCorrection
from setwise.models.storage.recalibrations import StoredRecalibration
from setwise.models.storage.sealed_folder import MANIFEST, sealed
from setwise.service.domain.errors import CalibrationDamaged, InvalidRequest, ModelUnavailable
from setwise.service.runtime.artifacts import FolderOrObjectStore
from tests.fakes import START, FakeClock, FakeIds
from tests.trained import Artifacts


@pytest.fixture(params=["folder", "object store"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> FolderOrObjectStore:
    if request.param == "folder":
        return _store(str(tmp_path / "artifacts"), tmp_path / "cache")
    fsspec.filesystem("memory").store.clear()
    return _store("memory://bucket/models", tmp_path / "cache")


def _store(url: str, cache: Path) -> FolderOrObjectStore:
    return FolderOrObjectStore(url, cache=cache, new_id=FakeIds(), now=FakeClock())


def _left_over(folder: Path) -> list[Path]:
    return list(folder.rglob(".incoming-*"))


def test_a_sound_artifact_is_kept_and_described(
    store: FolderOrObjectStore, artifacts: Artifacts, tmp_path: Path
) -> None:
    model = store.add(str(artifacts.text))
    predictor = store.load(model.location)
    assert model.version == predictor.version
    assert predictor.calibrator_version in model.location
    assert model.summary["method"] == "br-rerank"
    assert model.summary["n_labels"] == 6
    assert (model.active, model.created_at) == (False, START)
    assert _left_over(tmp_path) == []


def test_a_manifest_with_long_metrics_is_refused(
    store: FolderOrObjectStore, artifacts: Artifacts, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(artifacts.text, source)
    manifest = json.loads((source / MANIFEST).read_bytes())
    del manifest["manifest_sha256"]
    manifest["metrics"]["planted"] = "x" * 100_000
    (source / MANIFEST).write_bytes(sealed(manifest))
    with pytest.raises(InvalidRequest, match=r"its metrics take 10\d,\d+ characters"):
        store.add(str(source))
    assert not list(tmp_path.glob("artifacts/*-*"))


def test_the_source_is_needed_no_longer(
    store: FolderOrObjectStore, artifacts: Artifacts, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copytree(artifacts.text, source)
    location = store.add(str(source)).location
    shutil.rmtree(source)
    assert store.load(location).label_names == (
        "court",
        "finance",
        "harvest",
        "music",
        "space",
        "storm",
    )


def test_an_artifact_may_be_added_again(
    store: FolderOrObjectStore, artifacts: Artifacts, tmp_path: Path
) -> None:
    first = store.add(str(artifacts.text))
    again = store.add(str(artifacts.text))
    assert (again.location, again.version) == (first.location, first.version)
    assert _left_over(tmp_path) == []


def test_what_is_no_artifact_is_refused(
    store: FolderOrObjectStore, artifacts: Artifacts, tmp_path: Path
) -> None:
    path = tmp_path / "damaged"
    shutil.copytree(artifacts.text, path)
    victim = next(path.glob("*.safetensors"))
    content = bytearray(victim.read_bytes())
    content[-1] ^= 1
    victim.write_bytes(content)
    (tmp_path / "empty").mkdir()
    for source in (path, tmp_path / "empty", tmp_path / "missing", victim):
        with pytest.raises(InvalidRequest) as error:
            store.add(str(source))
        assert str(source) in error.value.detail
    assert _left_over(tmp_path) == []


def test_a_damaged_copy_is_refused_and_mended_by_adding_again(
    tmp_path: Path, artifacts: Artifacts
) -> None:
    store = _store(str(tmp_path), tmp_path)
    location = store.add(str(artifacts.text)).location
    victim = next((tmp_path / location).glob("*.safetensors"))
    victim.write_bytes(b"rubbish")
    with pytest.raises(ModelUnavailable, match=victim.name):
        store.load(location)
    store.add(str(artifacts.text))
    assert store.load(location).kind == "text"
    assert _left_over(tmp_path) == []


def test_an_artifact_that_vanished_is_unavailable(
    store: FolderOrObjectStore,
) -> None:
    with pytest.raises(ModelUnavailable):
        store.load("0123456789ab-0123456789ab")


def test_a_remote_artifact_is_fetched_once(tmp_path: Path, artifacts: Artifacts) -> None:
    files = fsspec.filesystem("memory")
    files.store.clear()
    location = _store("memory://bucket", tmp_path / "here").add(str(artifacts.text)).location
    elsewhere = _store("memory://bucket", tmp_path / "there")
    version = elsewhere.load(location).version
    files.store.clear()
    assert elsewhere.load(location).version == version
    assert _left_over(tmp_path) == []


def test_half_an_upload_is_no_artifact(tmp_path: Path, artifacts: Artifacts) -> None:
    files = fsspec.filesystem("memory")
    files.store.clear()
    location = _store("memory://bucket", tmp_path / "here").add(str(artifacts.text)).location
    files.rm(f"/bucket/{location}/manifest.json")
    with pytest.raises(ModelUnavailable):
        _store("memory://bucket", tmp_path / "there").load(location)
    assert not (tmp_path / "there" / location).exists()


def test_a_damaged_local_copy_of_a_remote_artifact_is_fetched_anew(
    tmp_path: Path, artifacts: Artifacts
) -> None:
    fsspec.filesystem("memory").store.clear()
    store = _store("memory://bucket", tmp_path)
    location = store.add(str(artifacts.text)).location
    next((tmp_path / location).glob("*.safetensors")).write_bytes(b"rubbish")
    assert store.load(location).kind == "text"
    assert store.load(location).kind == "text"
    assert _left_over(tmp_path) == []


def test_two_may_add_the_same_artifact_at_once(tmp_path: Path, artifacts: Artifacts) -> None:
    ids = FakeIds()
    stores = [
        FolderOrObjectStore(str(tmp_path), cache=tmp_path, new_id=ids, now=FakeClock())
        for _ in range(4)
    ]
    matches: list[str] = []
    threads = [
        threading.Thread(target=lambda s=s: matches.append(s.add(str(artifacts.text)).location))
        for s in stores
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(matches) == 4
    assert len(set(matches)) == 1
    assert stores[0].load(matches[0]).kind == "text"
    assert _left_over(tmp_path) == []


def zipped(*members: tuple[str, bytes]) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        for name, content in members:
            packed.writestr(name, content)
    file.seek(0)
    return file


def files_of(folder: Path, prefix: str) -> list[tuple[str, bytes]]:
    return [
        (prefix + path.relative_to(folder).as_posix(), path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]


def spoiled(method: int, *bytes_: tuple[int, int]) -> io.BytesIO:
    """Return an archive of one file, packed by ``method``, with other bytes at some places."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as packed:
        packed.writestr("manifest.json", bytes(range(256)) * 8)
    content = bytearray(file.getvalue())
    for place, value in bytes_:
        content[place] = value
    return io.BytesIO(bytes(content))


# Places in such an archive: the local header and the name come first; the entry in the directory,
# of 46 bytes and the name, and the end of the directory, of 22, come last.
DATA = 30 + len("manifest.json")
ENTRY = -(46 + len("manifest.json") + 22)
FLAGS, METHOD, DIRECTORY_PLACE = ENTRY + 8, ENTRY + 10, -4
PACKED_SIZE, SIZE = ENTRY + 22, ENTRY + 26


@pytest.mark.parametrize("prefix", ["", "my-model/"])
def test_an_artifact_may_come_as_a_zip_file(
    tmp_path: Path, artifacts: Artifacts, prefix: str
) -> None:
    store = _store(str(tmp_path / "store"), tmp_path)
    model = store.add_archive(zipped(*files_of(artifacts.text, prefix)))
    assert model.version == store.load(model.location).version
    assert [path.name for path in (tmp_path / "store").iterdir()] == [model.location]


@pytest.mark.parametrize(
    "archive",
    [
        io.BytesIO(b"not a zip file"),
        io.BytesIO(b""),
        zipped(("../../evil", b"x")),
        zipped(("/tmp/evil", b"x")),
        zipped(("readme.txt", b"x")),
        zipped(*[(str(number), b"") for number in range(1_001)]),
        zipped(("model", b"x"), ("model/manifest.json", b"x")),
        zipped(("model", b"x"), ("model/deep/manifest.json", b"x")),
        zipped(("model/manifest.json", b"x"), ("model", b"x")),
        spoiled(zipfile.ZIP_STORED, (DATA, 7)),
        spoiled(zipfile.ZIP_DEFLATED, (DATA, 255)),
        spoiled(zipfile.ZIP_BZIP2, (DATA, 255)),
        spoiled(zipfile.ZIP_LZMA, (DATA + 20, 255)),
        spoiled(zipfile.ZIP_STORED, (FLAGS, 1)),
        spoiled(zipfile.ZIP_STORED, (METHOD, 99)),
        spoiled(zipfile.ZIP_STORED, (PACKED_SIZE, 9), (SIZE, 9)),
        spoiled(zipfile.ZIP_STORED, (DIRECTORY_PLACE, 9)),
    ],
    ids=[
        *["text", "empty", "climbs out", "absolute", "no artifact", "too many"],
        *["file as folder", "file as deep folder", "folder as file", "damaged", "damaged deflate"],
        *[
            "damaged bzip2",
            "damaged lzma",
            "encrypted",
            "unknown method",
            "cut short",
            "directory misplaced",
        ],
    ],
)
def test_what_is_no_artifact_in_a_zip_file_is_refused(tmp_path: Path, archive: io.BytesIO) -> None:
    store = _store(str(tmp_path / "store"), tmp_path)
    with pytest.raises(InvalidRequest):
        store.add_archive(archive)
    assert list((tmp_path / "store").iterdir()) == []
    assert not (tmp_path / "evil").exists()


def test_a_zip_file_with_a_broken_directory_or_odd_names_is_refused(tmp_path: Path) -> None:
    """An upload is a file on disk, where bad offsets fail otherwise than in memory."""
    store = _store(str(tmp_path / "store"), tmp_path)
    draw = random.Random(0)
    sound = zipped(("manifest.json", b"{}"), ("model.json", b"{}" * 50)).getvalue()
    directory = sound.index(b"PK\x01\x02")
    archives = [zipped(("x" * 5_000, b"")), zipped(("/".join("x" * 3_000), b""))]
    archives.append(zipped(("x" * 300 + "/manifest.json", b"")))
    for _ in range(300):
        changed = bytearray(sound)
        for _ in range(draw.choice([1, 1, 2, 4])):
            place = draw.randrange(directory, len(sound))
            changed[place] = draw.choice([0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)])
        archives.append(io.BytesIO(bytes(changed)))
    for number, archive in enumerate(archives):
        path = tmp_path / f"{number}.zip"
        path.write_bytes(archive.getvalue())
        with path.open("rb") as file, pytest.raises(InvalidRequest):
            store.add_archive(file)
        path.unlink()
    assert list((tmp_path / "store").iterdir()) == []


def _kept(intercept: float = 0.5) -> StoredRecalibration:
    correction = ConfidenceCorrection(intercept, np.zeros(len(COLUMNS)), np.zeros(6))
    return StoredRecalibration("3f9c0b7a1d2e", "90ab12cd34ef", correction)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.json") if path.name != "manifest.json"]


def test_a_calibrator_is_kept_beside_the_models_and_comes_back(
    store: FolderOrObjectStore, artifacts: Artifacts, tmp_path: Path
) -> None:
    model = store.add(str(artifacts.text))
    location = store.add_calibrator(_kept())
    assert location == f"calibrators/3f9c0b7a1d2e-{_kept().version}"
    assert store.add_calibrator(_kept()) == location
    assert store.load_calibrator(location).recalibration.intercept == 0.5
    assert store.add_calibrator(_kept(0.25)) != location
    assert store.load(model.location).version == model.version
    assert _left_over(tmp_path) == []


def test_a_damaged_calibrator_is_refused_and_replaced_by_a_sound_one(tmp_path: Path) -> None:
    store = _store(str(tmp_path / "artifacts"), tmp_path / "cache")
    location = store.add_calibrator(_kept())
    (victim,) = _files(tmp_path / "artifacts" / location)
    victim.write_bytes(victim.read_bytes()[:-2])
    with pytest.raises(CalibrationDamaged, match=r"recalibration\.json"):
        store.load_calibrator(location)
    store.add_calibrator(_kept())
    assert store.load_calibrator(location).version == _kept().version
    with pytest.raises(CalibrationDamaged, match="cannot be loaded"):
        store.load_calibrator("calibrators/nowhere")


def test_a_calibrator_is_fetched_where_it_is_wanted(tmp_path: Path) -> None:
    fsspec.filesystem("memory").store.clear()
    url = "memory://bucket/models"
    location = _store(url, tmp_path / "one").add_calibrator(_kept())
    other = _store(url, tmp_path / "two")
    assert other.load_calibrator(location).version == _kept().version
    (victim,) = _files(tmp_path / "two" / location)
    victim.write_bytes(b"{}")
    assert other.load_calibrator(location).version == _kept().version, "fetched again"
