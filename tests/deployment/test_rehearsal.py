"""The image's steps, run in order in a clean folder, without an engine for containers.

Dependencies come from the environment of the tests, unless ``SETWISE_TEST_DOWNLOADS`` is set; then
they are downloaded as in the image.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ports import held_port
from tests.trained import Artifacts

ROOT = Path(__file__).resolve().parents[2]
DOWNLOADS = "SETWISE_TEST_DOWNLOADS" in os.environ
PATIENCE_S = 300.0


def _steps() -> list[tuple[str, str]]:
    """Return the instructions of the first stage."""
    text = (ROOT / "docker" / "Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    build = joined.split("\nFROM ")[1]
    steps = [
        (kind, rest.strip())
        for kind, rest in re.findall(r"^(RUN|COPY|ENV|WORKDIR) (.+)$", build, re.MULTILINE)
    ]
    assert len(steps) > 8
    return steps


def _borrow(packages: Path) -> None:
    """Lend an environment the dependencies of this one, and nothing of Setwise itself."""
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        ours = entry.name.startswith(("setwise", "__editable__", "_editable", "pip", "_virtualenv"))
        if not ours and entry.suffix != ".pth" and not (packages / entry.name).exists():
            (packages / entry.name).symlink_to(entry)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the build stage; return what the final stage copies."""
    folder = tmp_path_factory.mktemp("image")
    target, context = folder / "setwise", folder / "context"
    context.mkdir()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder),
    }
    for kind, rest in _steps():
        if kind == "COPY":
            *sources, _ = rest.split()
            for name in sources:
                place = context / name
                place.parent.mkdir(parents=True, exist_ok=True)
                if (ROOT / name).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / name, place, ignore=ignored)
                else:
                    shutil.copyfile(ROOT / name, place)
        elif kind == "RUN":
            command = rest.replace("/opt/setwise", str(target))
            if "--require-hashes" in command and not DOWNLOADS:
                _borrow(next(target.glob("lib/python3*/site-packages")))
                continue
            subprocess.run(
                ["bash", "-euc", command], cwd=context, env=environment, check=True, timeout=600
            )
    return target


@pytest.mark.verify
@pytest.mark.system
def test_the_entry_points_of_the_image_work_on_postgresql(
    image: Path, empty_postgres_url: str, artifacts: Artifacts, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    environment = {
        "PATH": f"{image / 'bin'}:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(data / "compiled"),
        "SETWISE_DATA_DIR": str(data),
        "SETWISE_DATABASE_URL": empty_postgres_url,
        "SETWISE_PEPPER": "p" * 64,
        "SETWISE_EMBEDDED_WORKER": "false",
    }

    def run(*arguments: str) -> str:
        finished_process = subprocess.run(
            [image / "bin" / "setwise", *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert finished_process.returncode == 0, finished_process.stderr
        return finished_process.stdout

    assert run("db", "upgrade").startswith("at ")
    run("db", "check")
    run("model", "add", str(artifacts.text), "--activate")
    run("key", "create", "--role", "admin", "--name", "me", "--json")
    log = tmp_path / "worker.log"
    with held_port() as port, log.open("wb") as worker_log:
        processes = [
            subprocess.Popen(
                [image / "bin" / "setwise", *arguments],
                cwd=tmp_path,
                env=environment,
                stderr=said,
            )
            for arguments, said in (
                (("serve", "--host", "127.0.0.1", "--port", str(port)), None),
                (("worker",), worker_log),
            )
        ]
        try:
            _wait(f"http://127.0.0.1:{port}/readyz/predictions")
            check = re.search(r'CMD (\["python".*\])', (ROOT / "docker" / "Dockerfile").read_text())
            assert check is not None
            code = check[1].split('"-c", "')[1].removesuffix('"]').replace("8000", str(port))
            subprocess.run([image / "bin" / "python", "-c", code], env=environment, check=True)
            assert "fault" not in run("doctor")
            assert "postgresql at" in run("backup", "all.zip")
            wait_for(lambda: "worker.started" in log.read_text(), "the worker does not start")
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
        assert [process.wait(timeout=45) for process in processes] == [0, 0], log.read_text()


def _wait(address: str) -> None:
    def answers() -> bool:
        try:
            urllib.request.urlopen(address, timeout=5).close()
        except OSError:
            return False
        return True

    wait_for(answers, f"{address} does not answer")


def wait_for(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.2)
