"""The locks hold on every platform and Python that the project names, checked without a network."""

import itertools
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
LOCKS = {
    "requirements.lock": set(EXTRAS),
    "docker/requirements.lock": {
        "service", "oidc", "telemetry", "s3", "gcs", "azure", "dask",
    },
}  # fmt: skip
_PIN = re.compile(r"^([\w.-]+)==(\S+?)(?: ; (.+?))?(?: \\)?$", re.MULTILINE)

# What `packaging.markers` knows of a platform.
PLATFORMS = {
    "Linux": {"sys_platform": "linux", "os_name": "posix", "platform_machine": "x86_64"},
    "Darwin": {"sys_platform": "darwin", "os_name": "posix", "platform_machine": "arm64"},
    "Windows": {"sys_platform": "win32", "os_name": "nt", "platform_machine": "AMD64"},
}
PYTHONS = [
    classifier.rpartition(" ")[2]
    for classifier in PROJECT["classifiers"]
    if re.search(r":: 3\.\d+$", classifier)
]
ENVIRONMENTS = [
    pytest.param(
        {
            **facts,
            "platform_system": system,
            "python_version": python,
            "python_full_version": f"{python}.1",
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
        },
        id=f"{system}-{python}",
    )
    for (system, facts), python in itertools.product(PLATFORMS.items(), PYTHONS)
]


def pins(lock: str, environment: dict[str, str]) -> dict[str, str]:
    """Return the versions that a lock installs, by name; each name stands there once."""
    versions: dict[str, str] = {}
    for name, version, marker in _PIN.findall((ROOT / lock).read_text()):
        if not marker or Marker(marker).evaluate(environment):
            assert name not in versions, f"{name} is pinned twice"
            versions[canonicalize_name(name)] = version
    assert len(versions) > 100
    return versions


def needs(lines: list[str], environment: dict[str, str], extras: set[str]) -> Iterator[Requirement]:
    """Yield the requirements that hold in an environment."""
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or any(
            marker.evaluate({**environment, "extra": extra}) for extra in extras | {""}
        ):
            yield requirement


def installed_needs(name: str, version: str) -> list[str]:
    """Return what a release needs; nothing of one that is not installed here."""
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return []  # of another platform
    return (installed.requires or []) if installed.version == version else []


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_whatever_is_needed(lock: str, environment: dict[str, str]) -> None:
    versions = pins(lock, environment)
    assert ("xgboost" in versions) == (environment["sys_platform"] == "darwin")
    assert ("xgboost-cpu" in versions) == (environment["sys_platform"] != "darwin")
    lines = PROJECT["dependencies"] + [line for extra in LOCKS[lock] for line in EXTRAS[extra]]
    waiting, seen = [*needs(lines, environment, set())], set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        assert name in versions, f"{requirement} is not pinned"
        assert requirement.specifier.contains(versions[name], prereleases=True), requirement
        if (name, frozenset(requirement.extras)) in seen:
            continue
        seen.add((name, frozenset(requirement.extras)))
        waiting += needs(installed_needs(name, versions[name]), environment, requirement.extras)
    assert len(seen) > len(lines) / 2
