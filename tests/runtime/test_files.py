"""Files of jobs: in memory, in a folder and in an object store they behave alike."""

import secrets
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from setwise.service.domain.errors import StorageDamaged, StorageFull, StorageUnavailable
from setwise.service.runtime.files import DRAFT, FRAME_BYTES, FolderOrObjectFiles, SealedFiles
from setwise.service.services.ports import FileStore, Sink
from setwise.service.stores.columns.ciphers import TextCipher
from setwise.service.stores.upkeep.encryption import NotDone
from tests.fake_files import FakeFiles

CIPHER = TextCipher([bytes(range(32))])


@pytest.fixture(params=["fake", "folder", "object store", "sealed"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> FileStore:
    if request.param == "fake":
        return FakeFiles()
    if request.param == "sealed":
        return SealedFiles(FolderOrObjectFiles(str(tmp_path / "files")), CIPHER)
    folder = str(tmp_path / "files")
    return FolderOrObjectFiles(folder if request.param == "folder" else f"memory://{folder}")


def write(files: FileStore, name: str, *content: bytes) -> None:
    with files.create(name) as sink:
        for part in content:
            sink.write(part)


def test_a_file_comes_back_and_may_be_replaced(files: FileStore) -> None:
    write(files, "jobs/1/upload/a", b"one", b"two")
    with files.open("jobs/1/upload/a") as file:
        assert file.read() == b"onetwo"
    write(files, "jobs/1/upload/a", b"three")
    with files.open("jobs/1/upload/a") as file:
        assert file.read() == b"three"


def test_names_are_listed_in_order_and_removed_by_folder(files: FileStore) -> None:
    for name in ("jobs/2/b", "jobs/2/a", "jobs/10/c/d"):
        write(files, name, b"x")
    assert list(files.names("jobs")) == ["10", "2"]
    assert list(files.names("jobs/2")) == ["a", "b"]
    assert list(files.names("nothing")) == []
    files.remove("jobs/2")
    files.remove("jobs/2")
    assert list(files.names("jobs")) == ["10"]
    with pytest.raises(FileNotFoundError):
        files.open("jobs/2/a")


def test_a_file_that_was_not_finished_is_not_there(files: FileStore) -> None:
    def break_off() -> None:
        with files.create("jobs/1/a") as sink:
            sink.write(b"half")
            raise RuntimeError("cut")

    with pytest.raises(RuntimeError, match="cut"):
        break_off()
    assert list(files.names("jobs/1")) == []


def test_only_the_owner_may_read_what_lies_in_a_folder(tmp_path: Path) -> None:
    write(FolderOrObjectFiles(str(tmp_path)), "a", b"x")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


SECRET = b"the patient said\n" * 20_000


def test_a_sealed_file_shows_nothing_and_reads_as_any_other() -> None:
    plain = FakeFiles()
    files = SealedFiles(plain, CIPHER)
    write(files, "jobs/1/upload/documents", SECRET[:7], SECRET[7:])
    content = plain.stored["jobs/1/upload/documents"]
    assert len(SECRET) > 3 * FRAME_BYTES
    assert b"patient" not in content
    with files.open("jobs/1/upload/documents") as file:
        assert file.read(2) == b"th"
        file.seek(0)
        assert file.readline() == b"the patient said\n"
        assert file.tell() == 17
        assert b"the patient said\n" + file.read() == SECRET


def test_a_sealed_file_becomes_complete_only_while_its_key_is_in_use() -> None:
    plain = FakeFiles()
    mask: list[bool] = []

    @contextmanager
    def writing() -> Iterator[None]:
        mask.append("a" in plain.stored)
        yield
        mask.append("a" in plain.stored)

    write(SealedFiles(plain, CIPHER, writing), "a", SECRET)
    assert mask == [False, True]

    def retired() -> AbstractContextManager[None]:
        raise StorageUnavailable("Key 1 was retired.")

    with pytest.raises(StorageUnavailable, match="retired"):
        write(SealedFiles(plain, CIPHER, retired), "b", SECRET)
    assert list(plain.stored) == ["a"]


def test_a_plain_file_is_refused() -> None:
    plain = FakeFiles({"a": b"planted"})
    with pytest.raises(StorageDamaged, match="not encrypted"):
        SealedFiles(plain, CIPHER).open("a")


NEW = TextCipher([bytes(range(1, 33)), bytes(range(32))])


def test_files_move_to_a_new_key_and_the_old_one_can_go(tmp_path: Path) -> None:
    store = FolderOrObjectFiles(str(tmp_path))
    for name in ("jobs/1/upload/documents", "jobs/1/result/00000000.jsonl"):
        write(SealedFiles(store, CIPHER), name, SECRET)
    (tmp_path / "jobs/1/upload/half.incoming").write_bytes(b"not complete")
    both = SealedFiles(store, NEW)
    assert both.outdated()
    assert both.reseal(lambda _, __: None) == 2
    assert not both.outdated()
    assert both.reseal(lambda _, __: None) == 0
    alone = SealedFiles(store, TextCipher([bytes(range(1, 33))]))
    for name in ("jobs/1/upload/documents", "jobs/1/result/00000000.jsonl"):
        with alone.open(name) as file:
            assert file.read() == SECRET
    assert CIPHER.sealing_id.encode() not in b"".join(
        path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()
    )


class LateObjects(MemoryFileSystem):
    """Objects that appear when they are closed, as in S3."""

    cachable = False

    def _open(self, path: str, mode: str = "rb", **options: object) -> MemoryFile:
        if mode != "wb":
            return super()._open(path, mode, **options)
        file = MemoryFile(self, path)
        file.close = file.commit
        return file


@pytest.mark.parametrize("kind", ["folder", "object store"])
def test_a_writer_that_fails_leaves_the_file_that_it_would_have_replaced(
    tmp_path: Path, kind: str
) -> None:
    files = FolderOrObjectFiles(str(tmp_path))
    if kind == "object store":
        files._files, files._local = LateObjects(), False
    write(files, "a", b"whole")

    def break_off() -> None:
        with files.create("a") as sink:
            sink.write(b"ha")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        break_off()
    with files.open("a") as file:
        assert file.read() == b"whole"


def test_a_file_that_changes_while_it_moves_to_a_new_key_keeps_the_change(tmp_path: Path) -> None:
    class Changing(FolderOrObjectFiles):
        changed = False

        @contextmanager
        def create(self, name: str, *, replacing: str | None = None) -> Iterator[Sink]:
            with super().create(name, replacing=replacing) as sink:
                yield sink
                if not self.changed and replacing:  # copied, not yet replaced
                    self.changed = True
                    write(SealedFiles(self, CIPHER), name, b"without a row")

    store = Changing(str(tmp_path))
    write(SealedFiles(store, CIPHER), "jobs/1/result/0.csv", b"with it")
    both = SealedFiles(store, NEW)
    both.reseal(lambda _, __: None)
    assert not both.outdated()
    with both.open("jobs/1/result/0.csv") as file:
        assert file.read() == b"without a row"


def test_a_plain_file_is_not_sealed() -> None:
    files = FakeFiles({"jobs/1/upload/documents": b"planted"})
    with pytest.raises(NotDone, match="not encrypted"):
        SealedFiles(files, CIPHER).reseal(lambda _, __: None)


@pytest.mark.parametrize("fault", ["cut off", "exchanged", "moved", "other key"])
def test_a_sealed_file_that_was_tampered_with_is_not_read(fault: str) -> None:
    plain = FakeFiles()
    write(SealedFiles(plain, CIPHER), "a", SECRET)
    lines = plain.stored["a"].splitlines(keepends=True)
    cipher, name = CIPHER, "a"
    if fault == "cut off":
        plain.stored["a"] = b"".join(lines[:-1])
    elif fault == "exchanged":
        plain.stored["a"] = b"".join([lines[1], lines[0], *lines[2:]])
    elif fault == "moved":
        name = "b"
        plain.stored["b"] = plain.stored["a"]
    else:
        cipher = TextCipher([bytes(32)])
    with SealedFiles(plain, cipher).open(name) as file, pytest.raises(StorageDamaged):
        file.read()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
@pytest.mark.parametrize("size", [10, 10_000_000], ids=["at the end", "in the middle"])
@pytest.mark.parametrize("sealed", [False, True])
def test_a_full_disk_is_named_and_leaves_nothing_behind(
    tmp_path: Path, size: int, sealed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda _: "random")
    files: FileStore = FolderOrObjectFiles(str(tmp_path))
    if sealed:
        files = SealedFiles(files, CIPHER)
    (tmp_path / "jobs/1/upload").mkdir(parents=True)
    (tmp_path / f"jobs/1/upload/a.random{DRAFT}").symlink_to("/dev/full")
    with pytest.raises(StorageFull):
        write(files, "jobs/1/upload/a", b"x" * size)
    assert files.names("jobs/1/upload") == []
