"""Each thing has one name in what people read: pages, the API, and the documentation."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS = {
    "skip": r"pass(ed|es|ing)? (it |them )?on\b|passed-on",
    "certificate": r"(?<!/)\bcertifications(?= [a-z])|(?<=[a-z] )certifications\b"
    r"|\ba proof\b|\bproofs\b",
    "certified": r"\b(is|was|be|been|none|nothing) proved\b(?! better| worse)|\bcertified by proof",
    "request": r"\b(every|most|all) calls?\b|\bcalls to\b|>Calls<",
    "member": r"\bunknown fields?\b|\ba field of (this|the) (request|body|document)\b",
}


def texts() -> Iterator[tuple[str, str]]:
    """Yield what people read, with the place."""
    # Mathematics proves; its page is left out.
    pages = {*(ROOT / "docs").glob("*.md"), ROOT / "README.md"} - {ROOT / "docs" / "proof.md"}
    for folder in ("pages", "api", "cli"):
        for kind in ("html", "toml", "js"):
            pages |= set((ROOT / "service" / folder).rglob(f"*.{kind}"))
        for path in (ROOT / "service" / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value
    yield from ((str(path.relative_to(ROOT)), path.read_text()) for path in sorted(pages))


@pytest.fixture(scope="module")
def every_text() -> list[tuple[str, str]]:
    return [(place, " ".join(text.split())) for place, text in texts()]


@pytest.mark.parametrize("word", WORDS)
def test_a_thing_has_one_name(every_text: list[tuple[str, str]], word: str) -> None:
    others = [
        f"{place}: {match[0]}"
        for place, text in every_text
        for match in re.finditer(WORDS[word], text, re.IGNORECASE)
    ]
    assert not others, f"say {word!r}:\n" + "\n".join(others)
