"""``If-None-Match`` and ``If-Match`` (RFC 9110, section 13.1)."""

import re
from collections.abc import Callable

from setwise.service.domain.errors import FieldFault, InvalidRequest, NotFound, StaleVersion

_TAG = re.compile(r'(W/)?"([^"]*)"')


def version_in(if_match: str | None, current: Callable[[], object] | None = None) -> str | None:
    """Return the version that an ``If-Match`` header names, or None.

    The quotes may be missing, because people write headers by hand.

    >>> version_in('"3"'), version_in("3"), version_in(None)
    ('3', '3', None)
    >>> version_in('"2", "3"', lambda: 3), version_in("*", lambda: 3)
    ('3', '3')

    Raises `InvalidRequest` if the header names no single version, and ``current`` is None;
    `StaleVersion` if no tag of a list is current, or nothing is there. A weak tag never matches.

    ``current``: Returns the current version, for ``*`` and for lists; None refuses them.
    """
    if if_match is None:
        return None
    condition = if_match.strip()
    tags = _TAG.findall(condition)
    if condition != "*" and not tags and condition.strip('"') and "," not in condition:
        tags = [("", condition)]
    strong: list[str] = [tag.partition(".")[0] for weak, tag in tags if not weak and tag]
    if tags and not strong and all(weak for weak, _ in tags):
        raise StaleVersion(f"If-Match: {condition} is a weak tag; send the ETag as it was given.")
    if len(strong) == len(tags) == 1:
        return strong[0]
    if current is None or (condition != "*" and not strong):
        detail = "names no single version; send one ETag as it was given"
        raise InvalidRequest(f"If-Match {detail}.", [FieldFault("/header/If-Match", detail)])
    try:
        present = str(current())
    except NotFound as error:
        raise StaleVersion(f"If-Match: {condition} matches nothing: {error.detail}") from error
    if condition != "*" and present not in strong:
        raise StaleVersion(f"Version {present} is current; If-Match does not name it.")
    return present


def number_in(if_match: str | None, current: Callable[[], int]) -> int | None:
    """Return the version number that ``If-Match`` names, or None; see `version_in`."""
    version = version_in(if_match, current)
    if version is None:
        return None
    if not (version.isascii() and version.isdecimal() and len(version) < 10):
        raise StaleVersion(f"If-Match names {version!r}, which was never given out as an ETag.")
    return int(version)


def has_version(if_none_match: str, etag: str) -> bool:
    """Return whether a client has this version already, by the weak comparison."""
    name = _TAG.fullmatch(etag)
    listed = {tag for _, tag in _TAG.findall(if_none_match)}
    return if_none_match.strip() == "*" or (name is not None and name[2] in listed)
