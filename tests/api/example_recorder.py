"""Records requests and responses as the examples of their schemas in the OpenAPI document."""

import json
import re
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from setwise.service.api import http
from setwise.service.domain.accounts.callers import Caller, Role
from tests.fakes import FakeIds
from tests.kit.edge import Service, described

FILE = Path(str(files(http) / "examples.json"))
WIDTH = 100
_ID = re.compile(r"019b7a0b-0000-7000-8000-\w{12}")

Examples = dict[str, list[Any]]


@dataclass
class Recorder:
    """Calls a service, and keeps what was sent and answered by the name of its schema."""

    service: Service
    examples: Examples = field(default_factory=dict)
    called: set[tuple[str, str]] = field(default_factory=set)
    """Methods and paths of the operations, as in the document."""
    ids: dict[str, str] = field(default_factory=dict)
    """Those shown instead of the service's: more or fewer ids in between change nothing."""
    new_id: FakeIds = field(default_factory=FakeIds)

    def join(self, name: str, role: Role) -> Caller:
        """Return a new caller, who has a key from now on."""
        return Caller(self.service.key(name, role), name, role)

    def call(
        self,
        operation: str,
        by: str,
        body: Any = None,
        *,
        another: bool = False,
        if_match: object = None,
        query: str = "",
        **places: str,
    ) -> Any:
        """Return the response to a request, as JSON if it has any.

        Each JSON that is sent becomes an example. Of the responses of a schema, the first one does,
        and each that is ``another`` one worth showing; the first and last items of their lists do.

        ``operation``: Method and path, as in the document; ``places`` are the path's parameters.
        """
        method, path = operation.split()
        self.called.add((method, path))
        documented = described()["paths"][path][method.lower()]
        content: dict[str, Any] = {"headers": {}}
        if isinstance(body, bytes):
            content = {"content": body, "headers": {"Content-Type": "application/octet-stream"}}
        elif body is not None:
            content["json"] = body
            self._keep(documented["requestBody"], body, another=True, shorten=False)
        if if_match is not None:
            content["headers"]["If-Match"] = f'"{if_match}"'
        response = self.service.send(method, path.format(**places) + query, by=by, **content)
        assert response.status_code < 300, (operation, response.text)
        if response.headers.get("content-type") != "application/json":
            return response
        answered = documented["responses"][str(response.status_code)]
        self._keep(answered, response.json(), another=another)
        return response.json()

    def keep_message(self, message: dict[str, Any]) -> None:
        """Keep a message of the outbox as webhooks receive it, if it is the first of its kind."""
        webhook = described()["webhooks"].get(message["type"])
        if webhook is not None:
            body = {name: value for name, value in message.items() if name != "id"}
            self._keep(webhook["post"]["requestBody"], body)

    def _keep(
        self,
        documented: dict[str, Any],
        body: object,
        *,
        another: bool = False,
        shorten: bool = True,
    ) -> None:
        """Keep a body under the name of the schema that the document gives for it."""
        reference = documented["content"]["application/json"]["schema"]["$ref"]
        examples = self.examples.setdefault(reference.rpartition("/")[2], [])
        if not examples or another:
            shown = self._shown(body, shorten=shorten)
            if shown not in examples:
                examples.append(shown)

    def _shown(self, body: Any, *, shorten: bool) -> Any:
        """Return a body with renumbered ids and, if shortened, at most two items in each list.

        Numbers have three digits then, since machines differ in the last ones of a computation.
        """
        match body:
            case dict():
                return {name: self._shown(part, shorten=shorten) for name, part in body.items()}
            case list():
                items = [body[0], body[-1]] if shorten and len(body) > 2 else body
                return [self._shown(item, shorten=shorten) for item in items]
            case str():
                return _ID.sub(self._shown_id, body)
            case float() if shorten:
                return float(f"{body:.3g}")
        return body

    def _shown_id(self, name: re.Match[str]) -> str:
        if name[0] not in self.ids:
            self.ids[name[0]] = self.new_id()
        return self.ids[name[0]]


def written(examples: Examples) -> str:
    """Return the content of the file: what fits into a line stands in one."""
    return _written(dict(sorted(examples.items()))) + "\n"


def _written(value: Any, indent: str = "\n", name: str = "") -> str:
    line = name + json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= WIDTH or not isinstance(value, dict | list):
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        parts = [_written(part, deeper, f"{json.dumps(key)}: ") for key, part in value.items()]
        return f"{name}{{{deeper}{f',{deeper}'.join(parts)}{indent}}}"
    parts = [_written(part, deeper) for part in value]
    return f"{name}[{deeper}{f',{deeper}'.join(parts)}{indent}]"
