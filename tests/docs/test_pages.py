"""Facts that the pages state, checked against the code."""

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from setwise.models.evaluation.judging import ADVICE
from setwise.models.results import ScoreVerdict
from setwise.service.cli import app
from setwise.service.domain.predictions import Reason
from setwise.service.domain.webhooks import MessageType
from setwise.service.pages.board.sections import SECTIONS
from setwise.service.settings import Settings
from tests.docs import policy_tables
from tests.docs.pages import PAGES, ROOT

TEXTS = [*PAGES, ROOT / "CHANGELOG.md", *sorted((ROOT / "benchmarks").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
PICTURE = re.compile(r'src(?:set)?="([^"]+)"')


def _anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it."""
    plain = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return plain.replace(" ", "-")


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for link in [*LINK.findall(text), *PICTURE.findall(text)]:
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert anchor in map(_anchor, headings), link


def test_every_picture_is_shown_and_small() -> None:
    text = "".join(page.read_text() for page in PAGES)
    for picture in (ROOT / "docs" / "pictures").iterdir():
        assert f"pictures/{picture.name}" in text, picture.name
        assert picture.stat().st_size <= 150_000, picture.name


def test_every_page_can_be_reached_from_the_readme() -> None:
    links = LINK.findall((ROOT / "README.md").read_text())
    assert {f"docs/{page.name}" for page in PAGES[1:]} <= set(links)


def test_the_front_page_and_each_release_in_the_changelog_stay_short() -> None:
    assert (ROOT / "README.md").read_text().count("\n") <= 150
    _, *releases = (ROOT / "CHANGELOG.md").read_text().split("\n## ")
    assert len(releases) >= 1
    for release in releases:
        assert release.count("\n") <= 100, release.partition("\n")[0]


@pytest.mark.parametrize(("page", "most"), [("start", 700), ("guarantees", 1000), ("leads", 2200)])
def test_pages_for_owners_and_leads_stay_short(page: str, most: int) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    assert len(re.sub(r"<!--.*?-->", "", text).split()) <= most


def test_paths_in_the_text_exist() -> None:
    for page in PAGES:
        for path in re.findall(
            r"`((?:models|service|tests|docker|migrations|benchmarks|docs)/[\w./-]*)`",
            page.read_text(),
        ):
            assert (ROOT / path).exists(), f"{page.name}: {path}"


def test_every_setting_is_listed_with_its_default() -> None:
    table = (ROOT / "docs" / "operators.md").read_text().partition("## Settings")[2]
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \|.*\| ([^|]+) \|$", table, re.MULTILINE))
    fields = Settings.model_fields
    assert list(map(str.lower, rows)) == [*dict.fromkeys(map(str.lower, rows))]
    assert {name.lower() for name in rows} == set(fields)
    for name, shown in rows.items():
        default = fields[name.lower()].default
        if shown.startswith("`") and name != "DATA_DIR":
            text = str(default).lower() if isinstance(default, bool) else f"{default}"
            assert shown.strip("`") == text.removesuffix(".0"), name
        elif name != "DATA_DIR":
            assert default in {"", None}, f"{name} has the default {default}"


def test_the_tables_of_the_policy_are_what_the_api_says_of_its_members() -> None:
    page = policy_tables.PAGE.read_text()
    assert page == policy_tables.with_tables(page), "run python -m tests.docs.policy_tables"


@pytest.mark.parametrize("kind", [Reason, MessageType], ids=lambda kind: kind.__name__)
def test_every_reason_and_event_is_explained_to_integrators(kind: type[Reason]) -> None:
    page = (ROOT / "docs" / "integrators.md").read_text()
    for member in kind:
        assert f"\n| `{member.value}` |" in page, member


def test_every_command_is_mentioned() -> None:
    pages = "".join(page.read_text() for page in PAGES)
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name in commands:
        assert f"setwise {name}" in pages, name


@pytest.mark.parametrize("verdict", ScoreVerdict)
def test_advice_on_a_confidence_names_a_command_or_page_that_exists(verdict: ScoreVerdict) -> None:
    output = CliRunner().invoke(app, ["--help"]).output
    commands = re.findall("“setwise ([^”]+)”", ADVICE[verdict])
    pages = re.findall(r"page (\w+)", ADVICE[verdict])
    assert commands
    assert all(re.search(rf"^\W*{each} ", output, re.MULTILINE) for each in commands)
    assert {*pages} <= {section.name for section in SECTIONS}


def test_every_command_has_one_whole_line_of_help() -> None:
    runner = CliRunner()
    groups = [[], *([name] for name in ("db", "key", "model", "person", "text", "webhook"))]
    for group in groups:
        listed = runner.invoke(app, [*group, "--help"]).output.partition("Commands")[2]
        assert listed, group
        assert "..." not in listed, listed
