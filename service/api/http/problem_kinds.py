"""All kinds of problem; ``problem_kinds.toml`` has what they mean to clients."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.resources import files

from setwise.service.domain.errors import ServiceError


@dataclass(frozen=True)
class ProblemKind:
    """A kind of problem: its address and what it means to clients."""

    slug: str
    """Last part of the problem's ``type``; never changes once released."""
    status: HTTPStatus
    title: str
    meaning: str
    """What happened and what to do about it."""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Sent with every problem of the kind."""

    @property
    def type(self) -> str:
        """The stable relative address of the kind."""
        return f"/problems/{self.slug}"


def _read() -> Iterator[tuple[str, ProblemKind]]:
    written = files(__package__).joinpath("problem_kinds.toml").read_text("utf-8")
    for slug, members in tomllib.loads(written).items():
        yield slug, ProblemKind(slug, **{**members, "status": HTTPStatus(members["status"])})


def _errors(kind: type[ServiceError]) -> Iterator[type[ServiceError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _errors(below)


_KINDS = dict(_read())
ALL_KINDS = tuple(_KINDS.values())

PROBLEMS = {kind: _KINDS[kind.code()] for kind in _errors(ServiceError) if kind.code() in _KINDS}
"""The problem that clients get for each class of error."""

UNKNOWN_ADDRESS = _KINDS["unknown-address"]
METHOD_NOT_ALLOWED = _KINDS["method-not-allowed"]
BODY_TOO_LARGE = _KINDS["body-too-large"]
BODY_TOO_SLOW = _KINDS["body-too-slow"]
UNSUPPORTED_MEDIA_TYPE = _KINDS["unsupported-media-type"]
MALFORMED_JSON = _KINDS["malformed-json"]
NOT_READY = _KINDS["not-ready"]
INTERNAL_ERROR = _KINDS["internal-error"]

BY_HTTP_STATUS = {
    kind.status: kind
    for kind in (UNKNOWN_ADDRESS, METHOD_NOT_ALLOWED, BODY_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE)
}
