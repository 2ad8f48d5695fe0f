"""What installed distributions need, read from their metadata."""

from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def distributions(requirements: list[str]) -> set[str]:
    """Return the names of all that these requirements bring, here."""
    names: set[str] = set()
    waiting = [*requirements]
    while waiting:
        requirement = Requirement(waiting.pop())
        name = canonicalize_name(requirement.name)
        marker = requirement.marker
        if name in names or (marker is not None and not marker.evaluate({"extra": ""})):
            continue
        try:
            waiting += distribution(name).requires or ()
        except PackageNotFoundError:
            continue  # of another platform
        names.add(name)
    return names
