"""A private file of the demo in which it keeps what it must show again, such as keys."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SecretsFile:
    """Names and secrets in a file that only its owner may read.

    Attributes
    ----------
    path : Path
        Need not exist yet.
    """

    path: Path

    def read(self) -> dict[str, str]:
        """Return what is kept; nothing when the file is missing or spoilt."""
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        if not isinstance(kept, dict):
            return {}
        return {str(name): str(secret) for name, secret in kept.items()}

    def write(self, secrets: Mapping[str, str]) -> None:
        """Keep ``secrets`` in place of what was kept."""
        draft = self.path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123 - a descriptor
            json.dump(dict(secrets), file, indent=2)
        draft.replace(self.path)
