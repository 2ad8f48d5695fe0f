"""Models as versions on really started servers: shadowed, activated, damaged, rolled back."""

import io
import zipfile
from pathlib import Path

import pytest

from tests.kit.installation import ON_POSTGRES, Installation, Server, stated_documents
from tests.kit.waiting import eventually

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
            client.post("/v1/predictions", json={"document": document})
            for document in stated_documents(n, seed=seed)
        ]
    assert {answer.status_code for answer in answers} == {201}
    return [answer.json()["model_version"] for answer in answers]


def test_a_candidate_shadows_takes_over_and_gives_way_again(
    installation: Installation, stated: tuple[Path, Path]
) -> None:
    """Two servers follow each step within seconds, and a damaged model changes nothing."""
    installation.fix_threshold(0.7)
    one, other = installation.serve(), installation.serve()
    (old,) = (model.version for model in installation.models)

    def serving(server: Server, version: str) -> bool:
        return predict(server, 1, seed=50) == [version]

    with one.client("admin") as admin:
        response = admin.post(
            MODELS,
            content=packed(stated[1]),
            headers={"Content-Type": "application/zip"},
        )
        assert response.status_code == 201, response.text
        new, path = response.json()["version"], f"{MODELS}/{response.json()['id']}"

        def comparison() -> dict[str, int]:
            shown: dict[str, int] = admin.get(f"{path}/comparison").json()
            return shown

        assert admin.post(f"{path}/shadow").status_code == 200
        posted = 0

        def compared_by(server: Server, before: int) -> bool:
            """Post to a server, until more is compared than others were asked before it."""
            nonlocal posted
            posted += 3
            assert set(predict(server, 3, seed=51)) == {old}
            return comparison()["compared"] > before

        for server in (one, other):
            eventually(lambda s=server, before=posted: compared_by(s, before), "both shadow")
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
        refused_response = admin.post(f"{path}/activate")
        assert (refused_response.status_code, refused_response.json()["type"]) == (
            409,
            "/problems/model-damaged",
        )
        assert admin.post(f"{path}/verify").status_code == 409
        for server in (one, other):
            with server.client() as anyone:
                assert anyone.get("/readyz/predictions").status_code == 200
            assert set(predict(server, 3, seed=54)) == {old}


def damage(installation: Installation, version: str) -> None:
    """Overwrite a part of a stored artifact."""
    root = Path(installation.settings.artifact_url)
    (folder,) = (path for path in root.iterdir() if path.name.startswith(version))
    largest = max(folder.rglob("*"), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    largest.write_bytes(content)
