"""The tables of the policy in docs/leads.md, made of what the API says of its members.

``python -m tests.docs.policy_tables`` writes them again.
"""

import re
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from setwise.service.requests.policy import Audit, PolicyRequest, RuleBody, Threshold
from tests.docs.pages import ROOT
from tests.kit.edge import described

PAGE = ROOT / "docs" / "leads.md"
PARTS: Mapping[str, type[BaseModel]] = {"threshold": Threshold, "audit": Audit}
NOT_FOR_PEOPLE = {"certificate_id", "tripped", "version"}
"""Members that programs send back as they were read."""

_TABLE = r"(\| {first} \|.*\n\|[-|]+\|\n)(?:\|.*\n)*"


def _members(model: type[BaseModel], before: str = "") -> Iterator[str]:
    schema = described()["components"]["schemas"][model.__name__]
    for name in model.model_fields:
        if name in PARTS:
            yield from _members(PARTS[name], f"{name}.")
        elif name not in NOT_FOR_PEOPLE:
            meaning = schema["properties"][name]["description"].removesuffix(".")
            required = "; required" if name in schema.get("required", ()) else ""
            yield f"| `{before}{name}` | {meaning}{required} |\n"


def _kinds() -> Iterator[str]:
    for kind, holds in re.findall(
        r"- `(\w+)`: holds back (.+?)\.(?=\n|$)", RuleBody.__doc__ or "", re.DOTALL
    ):
        yield f"| `{kind}` | {' '.join(holds.split())} |\n"


def with_tables(page: str) -> str:
    """Return a page in which both tables have the rows that the code gives."""
    for first, rows in (("member", _members(PolicyRequest)), ("kind", _kinds())):
        body = "".join(rows)
        page = re.sub(_TABLE.format(first=first), lambda table: table[1] + body, page, count=1)  # noqa: B023
    return page


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
