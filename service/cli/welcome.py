"""What ``setwise demo`` tells a newcomer: addresses, keys and calls that work when pasted."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Examples:
    """Notes to try.

    Attributes
    ----------
    clear, vague : str
        One that the model is sure of, and one that it is not.
    """

    clear: str
    vague: str


TOUR = {
    "reviewer": "Review: settle documents with the keys 1 to 9",
    "lead": "Cockpit: see what another threshold would do",
    "admin": "Board: read what a calibrator learnt, change the policy",
}
"""Where somebody new looks first, by login name."""


def welcome(
    url: str,
    secrets: Mapping[str, str],
    folder: Path,
    *,
    passwords: Mapping[str, str],
    examples: Examples,
    command: Path,
) -> str:
    """Return the text.

    Parameters
    ----------
    secrets : mapping
        A key for each role.
    passwords : mapping
        A password for each login name.
    folder : Path
        Where the demo keeps everything.
    command : Path
        The `setwise` that runs, which need not be on the search path.
    """
    people = "\n".join(
        f"  {login:<9} {password}  {TOUR.get(login, '')}".rstrip()
        for login, password in passwords.items()
    )
    keys = "\n".join(f"  {role:<9} {secret}" for role, secret in secrets.items())
    setwise, notes = shlex.quote(shown(command)), shlex.quote(shown(folder / "notes"))
    return f"""
Setwise is running.

  Pages     {url}/
  API       {url}/docs
  Data      {shown(folder)} (notes, model, database)

Sign in to the pages as each of these in turn, with the password beside it:
{people}

Keys for programs:
{keys}

Only you can read the files in which they are kept, demo-passwords.json and demo-keys.json.

Try in another terminal:

# A note that the model is sure of: sent automatically, unless it is drawn for an audit.
{_post_call(url, secrets["client"], examples.clear)}

# One that it is not sure of: waits for a person.
{_post_call(url, secrets["client"], examples.vague)}

# Claim the oldest task in the queue, and accept the likeliest labels.
{_review_calls(url, secrets["reviewer"])}

# See the threshold in force. (PUT changes it.)
curl -sw '\\n' {url}/v1/admin/policy -H 'Authorization: Bearer {secrets["admin"]}'

# Train a model of your own on the same notes, and judge it.
{setwise} train {notes} --out my-model
{setwise} evaluate my-model {notes}

Ctrl-C stops the demo."""


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
    """Return shell code that reads something from the claimed task; jq may not be there."""
    program = f"import json, sys; task = json.load(sys.stdin); print({expression})"
    return f"""$(printf %s "$task" | python3 -c '{program}')"""


def shown(path: Path) -> str:
    """Shorten a path that lies under the current folder."""
    below = path != Path.cwd() and path.is_relative_to(Path.cwd())
    return str(path.relative_to(Path.cwd())) if below else str(path)
