"""What Schemathesis loads to draw requests: known ids and labels, and two checks of its own.

``SCHEMATHESIS_HOOKS`` names this module. A drawn id is never that of anything, so every other
request names what is there, and changes it whatever its version.
"""

import json
import os
from pathlib import Path
from typing import Any
from zlib import crc32

import schemathesis

KNOWN = "SETWISE_DRAWN_KNOWN"
"""Environment variable with the file of known values by the name of their parameter."""

SPARED = "spared"
"""The name of those known ids that no request may name."""

OF_EVERY_ANSWER = {
    "cache-control", "content-encoding", "content-length", "content-security-policy",
    "content-type", "cross-origin-resource-policy", "date", "referrer-policy", "server",
    "transfer-encoding", "vary", "x-content-type-options", "x-request-id",
}  # fmt: skip
"""Headers that say nothing of the service, and so stand at no operation."""


def _known() -> dict[str, list[str]]:
    known: dict[str, list[str]] = json.loads(Path(os.environ[KNOWN]).read_text())
    return known


def _chance(value: object) -> int:
    """Return a number that depends on a drawn value alone, so that a seed repeats a run."""
    return crc32(repr(value).encode())


def _with_known(name: str, value: Any, known: dict[str, list[str]]) -> Any:
    """Return a drawn value, or in two of three cases a known one of its name."""
    if isinstance(value, dict):
        return {key: _with_known(key, member, known) for key, member in value.items()}
    if isinstance(value, list):
        return [_with_known(name, member, known) for member in value]
    chance = _chance(value)
    if value in known[SPARED]:
        return known["key_id"][0]
    if isinstance(value, str) and name in known and chance % 3:
        return known[name][chance % len(known[name])]
    return value


@schemathesis.hook
def before_call(_: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Put known values in place of some drawn ones."""
    known = _known()
    for name, value in list(case.path_parameters.items()):
        case.path_parameters[name] = _with_known(name, value, known)
    case.body = _with_known("", case.body, known)
    for name in list(case.headers):
        if name.lower() == "if-match" and _chance(case.headers[name]) % 2:
            case.headers[name] = "*"


@schemathesis.check
def documented_headers(_: Any, response: Any, case: Any) -> None:
    """The document names each header of an answer."""
    described = case.operation.responses.find_by_status_code(response.status_code)
    if described is None:
        return  # another check says that the status is undocumented
    named = {name.lower() for name, _ in described.headers.items()}
    unknown = set(response.headers) - named - OF_EVERY_ANSWER
    assert not unknown, f"{response.status_code} has the undocumented headers {sorted(unknown)}"


@schemathesis.check
def the_key_is_known(_: Any, response: Any, case: Any) -> None:
    """No request has revoked the caller's own key, so that the others say nothing."""
    if "authorization" in {name.lower() for name in response.request.headers}:
        assert response.status_code != 401, "the caller is not known any more"
