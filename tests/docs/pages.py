"""The pages that users read, cut into their code blocks."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(
    r"(?:^<!-- (?P<marker>[^\n]*?) -->\n)?^```(?P<language>\w*)\n(?P<content>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes
    ----------
    marker : str
        The HTML comment on the line above, "" without one. It says how to check the block:
        ``not run: REASON``, ``body: …``, ``data: FILE`` or ``given: NAMES``.
    line : int
        Of the opening fence, from 1.
    """

    page: Path
    line: int
    language: str
    marker: str
    content: str

    @property
    def place(self) -> str:
        """Where it stands, for messages."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def reason_not_to_run(self) -> str | None:
        """Why it is not run; None where it is."""
        kind, _, reason = self.marker.partition(":")
        return reason.strip() if kind == "not run" else None

    @property
    def commands(self) -> str:
        """The content as a shell reads it, without prompts."""
        return re.sub(r"^\$ ", "", self.content, flags=re.MULTILINE)

    @property
    def setwise_commands(self) -> list[tuple[dict[str, str], list[str]]] | None:
        """The settings and arguments of each line; None unless all lines call `setwise`."""
        lines = self.commands.replace("\\\n", " ").splitlines()
        if not all(re.match(r"([A-Z_]+=\S+ )*setwise ", line) for line in lines):
            return None
        matches = []
        for line in lines:
            words = shlex.split(line, comments=True)
            place = words.index("setwise")
            settings = dict(word.split("=", 1) for word in words[:place])
            matches.append((settings, words[place + 1 :]))
        return matches


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text()
    return [
        Block(
            page=page,
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            marker=found["marker"] or "",
            content=found["content"],
        )
        for found in _BLOCK.finditer(text)
    ]


EVERY_BLOCK = [block for page in PAGES for block in blocks(page)]
