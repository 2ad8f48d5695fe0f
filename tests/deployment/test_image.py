"""The image, built and started without an engine for containers.

It needs root, buildah and debootstrap, and downloads a Debian and all dependencies, so it runs only
where ``SETWISE_TEST_IMAGE`` is set: to ``1``, or to a folder that `debootstrap` has filled before.
"""

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.deployment.test_rehearsal import wait_for
from tests.ports import held_port
from tests.trained import Artifacts

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "docker.io/library/python:3.11-slim-bookworm"
PACKAGES = "python3,python3-pip,python3-venv,python-is-python3,ca-certificates"
PREPARE = """
rm -f /usr/lib/python3.11/EXTERNALLY-MANAGED
cd /usr/share/python-wheels
python -m pip install --quiet --no-index --ignore-installed --no-deps --root-user-action=ignore \
  pip-*.whl setuptools-*.whl
dpkg --purge --force-depends python3-pip python3-wheel
"""
"""Makes Debian's Python like that of the base image: with a pip that can be uninstalled."""

pytestmark = [pytest.mark.system, pytest.mark.verify]


@dataclass
class Buildah:
    """Images and containers in a folder of the test's own."""

    folder: Path

    def command(self, *arguments: str) -> list[str]:
        places = ["--root", str(self.folder / "store"), "--runroot", str(self.folder / "run")]
        return ["buildah", *places, "--storage-driver", "vfs", *arguments]

    def __call__(self, *arguments: str) -> str:
        process = subprocess.run(
            self.command(*arguments), capture_output=True, text=True, check=False, cwd=ROOT
        )
        assert process.returncode == 0, f"{process.stdout[-3000:]}\n{process.stderr[-3000:]}"
        return process.stdout.strip()


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    """Return the tool with the image ``setwise`` in its store."""
    wanted = os.environ.get("SETWISE_TEST_IMAGE")
    if not wanted:
        pytest.skip(
            "SETWISE_TEST_IMAGE is not set: needs root, buildah, and a Debian or its download"
        )
    lacking = [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]
    if lacking:
        pytest.fail(f"{' and '.join(lacking)} is missing: apt-get install buildah debootstrap")
    if os.geteuid() != 0:
        pytest.fail("debootstrap needs root")
    folder = tmp_path_factory.mktemp("buildah")
    new_buildah = Buildah(folder)
    base = folder / "base"
    if Path(wanted).is_dir():
        base = Path(wanted)
    else:
        subprocess.run(
            ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm", base],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    container = new_buildah("from", "scratch")
    new_buildah("copy", "-q", container, str(base), "/")
    new_buildah("run", "--isolation", "chroot", container, "--", "sh", "-euc", PREPARE)
    new_buildah("commit", "-q", "--rm", container, PYTHON)
    certificates = "/etc/ssl/certs"  # with those of a proxy, if there is one
    mounted = ("-v", f"{certificates}:{certificates}:ro")
    new_buildah("bud", "--isolation", "chroot", "--pull-never", *mounted, "-f", "docker/Dockerfile",
         "-t", "setwise", ".")  # fmt: skip
    yield new_buildah
    shutil.rmtree(folder, ignore_errors=True)


def test_the_image_migrates_examines_and_serves_as_nobody_in_particular(
    buildah: Buildah, empty_postgres_url: str, artifacts: Artifacts, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    shutil.copytree(artifacts.text, model)
    subprocess.run(["chmod", "-R", "a+rX", model], check=True)
    container = buildah("from", "--pull-never", "setwise")
    image = json.loads(buildah("inspect", container))["OCIv1"]["config"]
    settings = {
        "SETWISE_DATABASE_URL": empty_postgres_url,
        "SETWISE_PEPPER": "p" * 64,
        "SETWISE_EMBEDDED_WORKER": "false",
    }
    given = [f"--env={name}={value}" for name, value in settings.items()]
    run = ("run", "--isolation", "chroot", *given, "-v", f"{model}:/model:ro", container, "--")

    def setwise(*arguments: str) -> str:
        return buildah(*run, *image["Entrypoint"], *arguments)

    assert buildah(*run, "python", "-c", "import os; print(os.getuid())") == "10001"
    assert setwise("db", "upgrade").splitlines()[-1].startswith("at ")
    setwise("model", "add", "/model", "--activate")
    made = setwise("key", "create", "--role", "client", "--name", "me", "--json")
    key = json.loads(made)["key"]
    assert "fault" not in setwise("doctor")
    assert setwise("backup", "/var/lib/setwise/all.zip").endswith(" at revision 0001")
    with held_port() as port:
        serve = [str(port) if word == "8000" else word for word in image["Cmd"]]
        process = subprocess.Popen(
            buildah.command(*run, *image["Entrypoint"], *serve), start_new_session=True
        )
        try:
            ready = f"http://127.0.0.1:{port}/readyz/predictions"
            wait_for(lambda: _answer(ready) is not None, f"{ready} does not answer")
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/v1/predictions",
                data=json.dumps({"document": {"text": "judge verdict"}}).encode(),
                headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
            )
            answer = _answer(request)
            assert answer is not None
            assert answer["decision"] in {"auto", "review"}
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(60)


def _answer(asked: Any) -> dict[str, Any] | None:
    try:
        with urllib.request.urlopen(asked, timeout=30) as response:
            found: dict[str, Any] = json.load(response)
    except OSError:
        return None
    return found
