"""Where the package installs from wheels alone, and that the pages name where it does not."""

import subprocess
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.kit.tools import tools_or_skip

NAMES = {
    "x86_64-manylinux_2_28": "Linux",
    "aarch64-manylinux_2_28": "Linux",
    "x86_64-unknown-linux-musl": "Alpine",
    "aarch64-unknown-linux-musl": "Alpine",
    "x86_64-apple-darwin": "Intel Macs",
    "aarch64-apple-darwin": "Macs",
    "x86_64-pc-windows-msvc": "Windows",
    "aarch64-pc-windows-msvc": "Windows on ARM",
}
"""What the pages call each platform."""
WITHOUT_NUMBA = {
    "x86_64-unknown-linux-musl": "numba",
    "aarch64-unknown-linux-musl": "numba",
    "x86_64-apple-darwin": "numba",
}
LACKING = {"": WITHOUT_NUMBA, "service": WITHOUT_NUMBA | {"aarch64-pc-windows-msvc": "psycopg"}}
"""The package without a wheel that keeps each extra from a platform."""


@pytest.mark.verify
@pytest.mark.parametrize("platform", NAMES)
@pytest.mark.parametrize("extra", LACKING)
def test_the_dependencies_resolve_from_wheels(tmp_path: Path, extra: str, platform: str) -> None:
    tools_or_skip("uv")
    command = ["uv", "pip", "compile", str(ROOT / "pyproject.toml"), "--only-binary", ":all:"]
    command += [*(["--extra", extra] if extra else []), "--python-platform", platform]
    command += ["--python-version", "3.12", "-o", str(tmp_path / "resolved.txt")]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    lacking = LACKING[extra].get(platform)
    if lacking is None:
        assert process.returncode == 0, process.stderr
    else:
        assert process.returncode == 1, f"{NAMES[platform]} installs now: say so in the pages"
        assert "unsatisfiable" in process.stderr
        assert f"`{lacking}" in process.stderr, process.stderr


@pytest.mark.parametrize("page", ["docs/operators.md", "docs/python.md"])
def test_the_pages_name_where_it_does_not_install(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    for platform, package in LACKING["service"].items():
        assert NAMES[platform] in text
        assert package in text
