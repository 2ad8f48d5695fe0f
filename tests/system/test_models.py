"""Models as versions on really started servers: shadowed, activated, damaged, rolled back."""

import io
import time
import zipfile
from pathlib import Path

import pytest

from setwise.models.storage.artifacts import load
from tests.system.conftest import ON_POSTGRES, Installation, Server, eventually
from tests.trained import Artifacts, documents

pytestmark = [ON_POSTGRES, pytest.mark.system, pytest.mark.verify]

MODELS = "/v1/admin/models"


def packed(folder: Path) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return file.getvalue()


def predict(server: Server, n: int, seed: int) -> list[str]:
    """Post documents; returns the versions that answered."""
    with server.client("client") as client:
        answers = [
            client.post("/v1/predictions", json={"document": {"text": d["text"]}})
            for d in documents(n, seed=seed)
        ]
    assert {answer.status_code for answer in answers} == {201}
    return [answer.json()["model_version"] for answer in answers]


def test_a_candidate_shadows_takes_over_and_gives_way_again(
    installation: Installation, artifacts: Artifacts
) -> None:
    """Two servers follow each step within seconds, and a damaged model changes nothing."""
    installation.fix_threshold(0.7)
    one, other = installation.serve(), installation.serve()
    old = load(artifacts.text).version
    new = load(artifacts.other_text).version

    def serving(server: Server, version: str) -> bool:
        return predict(server, 1, seed=50) == [version]

    with one.client("admin") as admin:
        added = admin.post(
            MODELS,
            content=packed(artifacts.other_text),
            headers={"Content-Type": "application/zip"},
        )
        assert added.status_code == 201, added.text
        path = f"{MODELS}/{added.json()['id']}"

        def comparison() -> dict[str, int]:
            shown: dict[str, int] = admin.get(f"{path}/comparison").json()
            return shown

        assert admin.post(f"{path}/shadow").status_code == 200

        def compared_by(server: Server) -> bool:
            before = comparison()["compared"]
            assert set(predict(server, 3, seed=51)) == {old}
            time.sleep(0.3)
            return comparison()["compared"] > before

        for server in (one, other):
            eventually(lambda server=server: compared_by(server), "both servers shadow")
        report = comparison()
        ways = ("auto_both", "auto_serving", "auto_candidate", "review_both")
        assert sum(report[way] for way in ways) == report["compared"]
        assert admin.delete(f"{path}/shadow").status_code == 204

        assert admin.post(f"{path}/activate").json()["active"] is True
        assert predict(one, 1, seed=52) == [new]  # at once where it was activated
        eventually(lambda: serving(other, new), "the other server follows")
        back = admin.post(f"{MODELS}/rollback", headers={"If-Match": f'"{new}"'})
        assert back.json()["version"] == old
        assert predict(one, 1, seed=53) == [old]
        eventually(lambda: serving(other, old), "the other server follows back")

        damage(installation, new)
        refused = admin.post(f"{path}/activate")
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/model-damaged")
        assert admin.post(f"{path}/verify").status_code == 409
        for server in (one, other):
            with server.client() as anyone:
                assert anyone.get("/readyz").status_code == 200
            assert set(predict(server, 3, seed=54)) == {old}


def damage(installation: Installation, version: str) -> None:
    """Overwrite a part of a stored artifact."""
    root = Path(installation.settings.artifact_url)
    (folder,) = (path for path in root.iterdir() if path.name.startswith(version))
    largest = max(folder.rglob("*"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    largest.write_bytes(content)
