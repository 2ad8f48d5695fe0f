"""Files that commands write: devices, links, inputs and full disks."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest

from setwise.service.cli.console import CommandError
from setwise.service.cli.targets import refuse_folder, seekable, write_private, written_whole
from tests.cli.running import refusal, status


def write(path: Path, text: str = "new", inputs: tuple[Path | str, ...] = ()) -> None:
    with written_whole(path, inputs) as file:
        file.write(text)


def test_a_device_is_written_as_it_is() -> None:
    before = Path(os.devnull).stat()
    write(Path(os.devnull))
    after = Path(os.devnull).stat()
    assert (after.st_mode, after.st_rdev, after.st_ino) == (
        before.st_mode,
        before.st_rdev,
        before.st_ino,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
def test_a_full_disk_is_named_with_its_file() -> None:
    with pytest.raises(CommandError, match=f"^/dev/full: {os.strerror(errno.ENOSPC)}$"):
        write(Path("/dev/full"))
    assert Path("/dev/full").is_char_device()


def test_a_fifo_is_written_as_it_is(tmp_path: Path) -> None:
    fifo, texts = tmp_path / "fifo", []
    os.mkfifo(fifo)
    reader = Thread(target=lambda: texts.append(fifo.read_text()))
    reader.start()
    write(fifo)
    reader.join()
    assert texts == ["new"]
    assert fifo.is_fifo()


def test_what_must_be_sought_in_reaches_a_fifo_whole(tmp_path: Path) -> None:
    fifo, contents = tmp_path / "fifo", []
    os.mkfifo(fifo)
    reader = Thread(target=lambda: contents.append(fifo.read_bytes()))
    reader.start()
    with written_whole(fifo) as file, seekable(file.buffer) as whole:
        whole.write(b"..d")
        whole.seek(0)
        whole.write(b"en")
    reader.join()
    assert contents == [b"end"]


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    target, link, chain = tmp_path / "place" / "file", tmp_path / "link", tmp_path / "chain"
    link.symlink_to("place/file")
    chain.symlink_to(link)
    for path in (link, chain):  # at first, there is no target
        write(path, path.name)
        assert target.read_text() == path.name
        assert path.is_symlink()
    assert [each.name for each in target.parent.iterdir()] == ["file"]


def test_a_private_file_behind_a_link_stays_behind_it(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    link = tmp_path / "secret"
    link.symlink_to("place/secret")
    write_private(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "place" / "secret").read_bytes() == b"new"


def test_a_file_keeps_its_permissions_and_hard_links(tmp_path: Path) -> None:
    file, other = tmp_path / "file", tmp_path / "other"
    file.write_text("old, and longer")
    file.chmod(0o640)
    write(file)
    assert file.stat().st_mode & 0o777 == 0o640
    other.hardlink_to(file)
    write(file, "newer")
    assert other.read_text() == "newer"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "other"]


def test_a_descriptor_that_is_open_is_appended_to(tmp_path: Path) -> None:
    file = tmp_path / "file"
    with file.open("w") as opened:
        opened.write("before\n")
        opened.flush()
        write(Path(f"/dev/fd/{opened.fileno()}"), "after\n")
    assert file.read_text() == "before\nafter\n"


def test_what_a_command_reads_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    names = ("notes.jsonl", "labels.txt", "notes.xml", "model/manifest.json")
    for name in names:
        (tmp_path / name).write_text("old")
    (tmp_path / "link").symlink_to("notes.jsonl")
    (tmp_path / "hard").hardlink_to(tmp_path / "notes.jsonl")
    inputs = (tmp_path / "notes.jsonl", tmp_path / "model")
    for name in (*names, "link", "hard"):
        with pytest.raises(CommandError, match="the command reads this file; name another one"):
            write(tmp_path / name, inputs=inputs)
        assert (tmp_path / name).read_text() == "old"
    write(tmp_path / "other", inputs=inputs)


def test_no_file_is_added_to_a_model(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "manifest.json").write_text("{}")
    (tmp_path / "other").symlink_to("model")
    for name in ("model/out.jsonl", "other/out.jsonl"):
        with pytest.raises(CommandError, match="this is in the folder of a model; name another"):
            write(tmp_path / name, inputs=(tmp_path / "model",))
    (tmp_path / "texts").mkdir()
    write(tmp_path / "texts" / "out.jsonl", inputs=(tmp_path / "texts",))


def test_a_link_to_itself_stays(tmp_path: Path) -> None:
    link, back = tmp_path / "link", tmp_path / "back"
    link.symlink_to("back")
    back.symlink_to("link")
    with pytest.raises(CommandError, match="this link leads to itself; name a file"):
        write(link)
    assert link.is_symlink()


def test_standard_input_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_text("old")
    with path.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(CommandError, match="the command reads this file"):
            write(path, inputs=("-",))
    assert path.read_text() == "old"


def test_a_folder_with_an_input_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.jsonl").write_text("old")
    with pytest.raises(CommandError, match="lies in it and is read"):
        refuse_folder(tmp_path, [tmp_path / "notes.jsonl"])
    refuse_folder(tmp_path / "model", [tmp_path / "notes.jsonl", None, "estimate"])


def test_every_command_that_writes_knows_its_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    audits, predictions = tmp_path / "audits.csv", tmp_path / "predictions.jsonl"
    audits.write_text("confidence,right\n" + "0.9,1\n" * 9)
    predictions.write_text('{"id": "a", "labels": [], "confidence": 0.5}\n')
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"id": "a", "text": "fever"}\n')
    tasks = tmp_path / "tasks.json"
    for arguments, path in (
        (("certify", audits, "--target", "0.9", "--plot", audits), audits),
        (("label-studio", predictions, "--out", predictions), predictions),
        (("label-studio", predictions, "--texts", texts, "--out", texts), texts),
        (("label-studio", predictions, "--out", tasks, "--config", predictions), predictions),
    ):
        before = path.read_text()
        assert "the command reads this file" in refusal(capsys, *map(str, arguments))
        assert path.read_text() == before
        assert not tasks.exists()
    both = ("label-studio", predictions, "--out", tasks, "--config", tasks)
    assert "--out writes this file" in refusal(capsys, *map(str, both))


def test_the_interface_is_written_where_it_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link.json"
    link.symlink_to("openapi.json")
    assert status("openapi", "--out", link) == 0
    assert link.is_symlink()
    assert (tmp_path / "openapi.json").read_text().startswith("{")
    capsys.readouterr()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_disk_that_becomes_full_is_noticed(tmp_path: Path, unbuffered: str) -> None:
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (9, 9));"
        "from setwise.service.cli import main; main(['--version'])"
    )
    with (tmp_path / "out").open("w") as out:
        process = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            stdout=out,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert process.stderr.decode() == f"setwise: standard output: {os.strerror(errno.EFBIG)}\n"
    assert process.returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is full")
def test_a_full_standard_output_is_named_once() -> None:
    program = "from setwise.service.cli import main; main(['--version'])"
    with Path("/dev/full").open("w") as full:
        process = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert process.stderr.decode() == f"setwise: standard output: {os.strerror(errno.ENOSPC)}\n"
    assert process.returncode == 2
