"""The welcome of `setwise demo`: addresses, keys and example calls."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Examples:
    """A note with a confident prediction, and one without."""

    clear: str
    vague: str


TOUR = {
    "reviewer": "Review: submit label sets with the keys 1 to 9",
    "lead": "Cockpit: try another threshold",
    "admin": "Board: look at a calibrator, change the policy",
}
"""What to try first, by login name."""


def welcome(
    url: str,
    secrets: Mapping[str, str],
    folder: Path,
    *,
    passwords: Mapping[str, str],
    examples: Examples,
    command: Path,
) -> str:
    """Return the welcome text.

    ``secrets``, ``passwords``: Keys by role and passwords by login name.
    ``folder``: Folder with the demo's data.
    ``command``: The running `setwise`, which may not be on the search path.
    """
    people = "\n".join(
        f"  {login:<9} {password}  {TOUR.get(login, '')}".rstrip()
        for login, password in passwords.items()
    )
    setwise, notes = shlex.quote(shown(command)), shlex.quote(shown(folder / "notes"))
    return f"""
Setwise is running.

  Pages     {url}/
  API       {url}/docs
  Data      {shown(folder)} (notes, model, database)

Sign in to the pages as:
{people}

Keys for programs:
{_listed(secrets)}

They are kept in demo-passwords.json and demo-keys.json, which only you can read.

Try in another terminal:

# A note that the model is confident about: sent automatically, unless it is audited.
{_post_call(url, secrets["client"], examples.clear)}

# A note that it is not confident about: waits for review.
{_post_call(url, secrets["client"], examples.vague)}

# Claim the oldest task in the queue, and accept the suggested labels.
{_review_calls(url, secrets["reviewer"])}

# Get the policy. (PUT changes it.)
curl -sw '\\n' {url}/v1/admin/policy -H 'Authorization: Bearer {secrets["admin"]}'

# Train your own model on the same notes, and evaluate it.
{setwise} train {notes} --out my-model
{setwise} evaluate my-model {notes}

Ctrl-C stops the demo."""


def welcome_to_nothing(
    url: str, secrets: Mapping[str, str], folder: Path, passwords: Mapping[str, str]
) -> str:
    """Return the welcome to a project without a model; the arguments are those of `welcome`."""
    text = "Fever and productive cough for five days."
    return f"""
Setwise is running, without a model and without documents.

  Begin     {url}/board/start
  Labels    {shown(folder / "labels.txt")}
  Texts     {shown(folder / "texts.jsonl")}

Sign in as admin, and upload both files there:
{_listed(passwords)}

Keys for programs:
{_listed(secrets)}

Or post a text; it waits for a reviewer:
{_post_call(url, secrets["client"], text)}

Ctrl-C stops the demo."""


def _listed(secrets: Mapping[str, str]) -> str:
    return "\n".join(f"  {name:<9} {secret}" for name, secret in secrets.items())


def _post_call(url: str, secret: str, text: str) -> str:
    body = shlex.quote(json.dumps({"document": {"text": text}}))
    return (
        f"curl -sw '\\n' {url}/v1/predictions -H 'Authorization: Bearer {secret}' \\\n"
        f"  -H 'Content-Type: application/json' -d {body}"
    )


def _review_calls(url: str, secret: str) -> str:
    labels = 'json.dumps({"labels": task["candidates"][0]["labels"]})'
    return "\n".join(
        (
            f"auth='Authorization: Bearer {secret}'",
            f'task=$(curl -s -X POST {url}/v1/reviews/claim -H "$auth"); printf "%s\\n" "$task"',
            "id=" + _of_task('task["id"]'),
            "version=" + _of_task('task["version"]'),
            "labels=" + _of_task(labels),
            f"curl -sw '\\n' {url}/v1/reviews/$id/complete \\",
            """  -H "$auth" -H "If-Match: $version" \\""",
            """  -H 'Content-Type: application/json' -d "$labels\"""",
        )
    )


def _of_task(expression: str) -> str:
    """Return shell code that reads from the claimed task without jq."""
    program = f"import json, sys; task = json.load(sys.stdin); print({expression})"
    return f"""$(printf %s "$task" | python3 -c '{program}')"""


def shown(path: Path) -> str:
    """Return a path, relative to the current folder if it lies there."""
    below = path != Path.cwd() and path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd())) if below else str(path)
