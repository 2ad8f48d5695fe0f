"""What describes a deployment is well formed, and fits the service that it deploys."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from setwise.service.cli import app
from setwise.service.settings import Settings
from tests.kit.edge import Service
from tests.kit.tools import tools_or_skip

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"

TEXT = {"type": "string", "minLength": 1}
TEXTS = {"type": "array", "items": TEXT, "minItems": 1}
DURATION = {"type": "string", "pattern": r"^(\d+(s|m|h))+$"}
SERVICE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["image", "networks"],
    "properties": {
        "image": {"type": "string", "pattern": r"^[\w./-]+:[\w.${}:-]+$"},
        "build": {
            "type": "object",
            "additionalProperties": False,
            "required": ["context", "dockerfile"],
            "properties": {"context": TEXT, "dockerfile": TEXT},
        },
        "command": TEXTS,
        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
        "read_only": {"type": "boolean"},
        "tmpfs": TEXTS,
        "cap_add": TEXTS,
        "cap_drop": TEXTS,
        "security_opt": TEXTS,
        "profiles": TEXTS,
        "ports": {"type": "array", "items": {"type": "string", "pattern": r"^[\d.:]+(/udp)?$"}},
        "volumes": {
            "type": "array",
            "items": {"type": "string", "pattern": r"^[^:]+:/[^:]+(:ro)?$"},
        },
        "networks": {
            "oneOf": [
                TEXTS,
                {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"ipv4_address": TEXT},
                    },
                },
            ]
        },
        "stop_grace_period": DURATION,
        "environment": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        "healthcheck": {
            "oneOf": [
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["test"],
                    "properties": {
                        "test": TEXTS,
                        "interval": DURATION,
                        "timeout": DURATION,
                        "retries": {"type": "integer", "minimum": 1},
                    },
                },
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["disable"],
                    "properties": {"disable": {"const": True}},
                },
            ]
        },
        "depends_on": {
            "oneOf": [
                TEXTS,
                {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["condition"],
                        "properties": {
                            "condition": {
                                "enum": [
                                    "service_started",
                                    "service_healthy",
                                    "service_completed_successfully",
                                ]
                            }
                        },
                    },
                },
            ]
        },
    },
}
IPAM = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "config": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"subnet": {"type": "string"}, "ip_range": {"type": "string"}},
            },
        }
    },
}
COMPOSE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["services"],
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"},
        "services": {"type": "object", "additionalProperties": SERVICE},
        "networks": {
            "type": "object",
            "additionalProperties": {
                "oneOf": [
                    {"type": "null"},
                    {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"internal": {"type": "boolean"}, "ipam": IPAM},
                    },
                ]
            },
        },
        "volumes": {"type": "object", "additionalProperties": {"type": "null"}},
    },
}
"""The part of the Compose Specification that the file uses; anything else is a slip."""


VARIABLES = {f"SETWISE_{name.upper()}" for name in Settings.model_fields}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


def test_the_dockerfile_keeps_the_rules() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    process = subprocess.run(
        [hadolint, DOCKER / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (process.returncode, process.stdout) == (0, ""), process.stderr


def test_the_image_runs_as_nobody_in_particular_and_can_build_nothing() -> None:
    final = (DOCKER / "Dockerfile").read_text().rpartition("\nFROM ")[2]
    assert re.search(r"^USER 1\d+:1\d+$", final, re.MULTILINE)
    assert "HEALTHCHECK" in final
    assert "pip uninstall --yes --quiet pip" in final
    assert not re.search(r"pip install|gcc|curl", final)
    matches = re.findall(
        r"^COPY (?!--from)(.+) \S+$", (DOCKER / "Dockerfile").read_text(), re.MULTILINE
    )
    for name in " ".join(matches).split():
        assert (ROOT / name).exists(), name


def test_the_compose_file_fits_its_specification(compose: dict[str, Any]) -> None:
    jsonschema.validate(compose, COMPOSE)
    services = compose["services"]
    for name, service in services.items():
        assert set(service["networks"]) <= set(compose["networks"]), name
        assert set(service.get("depends_on", [])) <= set(services), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            known = (
                (ROOT / source).exists()
                if source.startswith("./")
                else source in compose["volumes"]
            )
            assert known, f"{name}: {volume}"
        if service.get("build"):
            assert service["read_only"]
            assert service["cap_drop"] == ["ALL"]
            assert (ROOT / service["build"]["dockerfile"]).is_file()
    for name, place in {"api": "8000/readyz", "worker": "8001/readyz"}.items():
        assert f":{place}'" in services[name]["healthcheck"]["test"][-1]
    for name, needed in (
        ("roles", "service_healthy"),
        ("migrate", "service_completed_successfully"),
        ("api", "service_completed_successfully"),
    ):
        (condition,) = services[name]["depends_on"].values()
        assert condition == {"condition": needed}


def command_names() -> set[str]:
    """Return the names of all commands and groups of commands."""
    names = {str(group.name) for group in app.registered_groups}
    for group in app.registered_groups:
        assert group.typer_instance is not None
        names |= {
            command.name or command.callback.__name__
            for command in group.typer_instance.registered_commands
            if command.callback is not None
        }
    return names


def test_the_compose_file_sets_settings_and_runs_commands_that_exist(
    compose: dict[str, Any],
) -> None:
    commands = command_names()
    for name in ("migrate", "api", "worker"):
        service = compose["services"][name]
        assert set(service["environment"]) <= VARIABLES
        assert service.get("command", ["serve"])[0] in commands
    matches = re.findall(r"\$\{(\w+)", (ROOT / "docker-compose.yml").read_text())
    example = (DOCKER / "example.env").read_text()
    assert {name for name in matches if f"{name}=" not in example} <= {
        "SETWISE_VERSION",
        "SETWISE_LOG_LEVEL",
    }


@pytest.mark.parametrize("name", ["migrate", "api", "worker"])
def test_the_compose_file_passes_every_setting(compose: dict[str, Any], name: str) -> None:
    environment = compose["services"][name]["environment"]
    of_the_image = {"data_dir"}
    of_the_migration = {"database_app_user"}
    for field in set(Settings.model_fields) - of_the_image - of_the_migration:
        assert f"SETWISE_{field.upper()}" in environment, field
    # An empty value would replace the default; no value passes on what `.env` or the shell has.
    assert "" not in environment.values()


def test_the_service_does_not_learn_the_password_of_the_owner(compose: dict[str, Any]) -> None:
    for name in ("api", "worker"):
        service = compose["services"][name]
        assert "env_file" not in service
        assert "${POSTGRES_PASSWORD" not in str(service["environment"])
        assert "SETWISE_DATABASE_APP_USER" not in service["environment"]


def test_the_service_trusts_the_proxy_of_the_composition_alone(compose: dict[str, Any]) -> None:
    def filled(text: str) -> str:
        return re.sub(r"\$\{SETWISE_FRONT_NETWORK:-([\d.]+)\}", r"\1", text)

    trusted = filled(compose["x-setwise"]["environment"]["SETWISE_TRUSTED_PROXIES"])
    assert Settings(trusted_proxies=trusted)
    proxy = ip_address(filled(compose["services"]["proxy"]["networks"]["front"]["ipv4_address"]))
    assert str(proxy) == trusted
    (pool,) = compose["networks"]["front"]["ipam"]["config"]
    assert proxy in ip_network(filled(pool["subnet"]))
    assert proxy not in ip_network(filled(pool["ip_range"]))  # so that no other container gets it
    sharing = {
        name for name, each in compose["services"].items() if "front" in each.get("networks", ())
    }
    assert sharing == {"api", "proxy"}
    # It can reach the API over no other network, where it would have another address.
    assert set(compose["services"]["proxy"]["networks"]) == {"front"}


def _expressions() -> list[str]:
    rules = yaml.safe_load((DOCKER / "prometheus" / "rules.yml").read_text())
    dashboard = json.loads((DOCKER / "grafana" / "dashboards" / "setwise.json").read_text())
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]] + [
        target["expr"] for panel in dashboard["panels"] for target in panel["targets"]
    ]


def test_rules_and_dashboards_ask_for_metrics_that_there_are(service: Service) -> None:
    service.predict()
    with service.app.state.edge.metrics.stages.score():
        pass
    text = service.get("/metrics", by="admin").text
    there = set(re.findall(r"^(setwise_\w+?)(?:\{| )", text, re.MULTILINE))
    there |= set(re.findall(r"^# TYPE (setwise_\w+) gauge$", text, re.MULTILINE))  # no value yet
    for expression in _expressions():
        matches = re.findall(r"\bsetwise_\w+", expression)
        assert set(matches) <= there, expression
        assert matches or expression.startswith("up{")
        for opening, closing in ("()", "{}", "[]"):
            assert expression.count(opening) == expression.count(closing), expression
        for labels in re.findall(r"\{([^}]*)\}", expression):
            assert re.fullmatch(r'(\w+(=|!=|=~|!~)"[^"]*",?)+', labels), expression


def test_prometheus_and_grafana_are_told_of_files_that_there_are(compose: dict[str, Any]) -> None:
    prometheus = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text())
    for name in prometheus["rule_files"]:
        assert (DOCKER / "prometheus" / name).is_file()
    rules = yaml.safe_load((DOCKER / "prometheus" / "rules.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
            assert re.fullmatch(r"\d+[smh]", rule.get("for", "1m"))
            assert rule["annotations"]["summary"]
    caddy = (DOCKER / "Caddyfile").read_text()
    assert re.findall(r"health_uri (\S+)", caddy) == ["/readyz"]
    targets = [
        t for job in prometheus["scrape_configs"] for t in job["static_configs"][0]["targets"]
    ]
    assert {target.split(":")[0] for target in targets} <= set(compose["services"])
    sources = yaml.safe_load(
        (DOCKER / "grafana/provisioning/datasources/prometheus.yml").read_text()
    )
    uids = {source["uid"] for source in sources["datasources"]}
    dashboard = json.loads((DOCKER / "grafana/dashboards/setwise.json").read_text())
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} <= uids
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


CLUSTER = DOCKER / "kubernetes"


def _manifests(folder: Path) -> list[dict[str, Any]]:
    """Return what a kustomization applies, as it stands in its files."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    files = {file.name for file in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == files
    return [
        manifest
        for name in kustomization["resources"]
        for manifest in yaml.safe_load_all((folder / name).read_text())
    ]


def _variables(file: Path) -> dict[str, str]:
    lines = file.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


KUBERNETES = _manifests(CLUSTER)
KUSTOMIZATION = yaml.safe_load((CLUSTER / "kustomization.yaml").read_text())
OF_THE_STORE = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}


def _pods() -> dict[str, dict[str, Any]]:
    """Return the templates of the pods by component."""
    templates = [
        each["spec"]["template"] for each in KUBERNETES if each["kind"] in {"Deployment", "Job"}
    ]
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each for each in templates}


@pytest.mark.parametrize(
    "manifest", KUBERNETES, ids=lambda each: f"{each['kind']}-{each['metadata']['name']}"
)
def test_every_manifest_fits_kubernetes(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, "1.31", strict=True)


@pytest.mark.parametrize("component", ["api", "worker"])
def test_every_pod_fits_the_service(component: str) -> None:
    pod = _pods()[component]["spec"]
    names = {each["name"] for each in KUSTOMIZATION["secretGenerator"]}
    accounts = {each["metadata"]["name"] for each in KUBERNETES if each["kind"] == "ServiceAccount"}
    assert pod["serviceAccountName"] in accounts
    for container in (*pod["initContainers"], *pod["containers"]):
        assert container["image"] == "setwise"  # kustomization.yaml says which one
        assert {variable["name"] for variable in container.get("env", ())} <= VARIABLES
        assert container["args"][0] in command_names()
        assert container["securityContext"]["readOnlyRootFilesystem"]
        secrets = [
            each["secretRef"]["name"] for each in container["envFrom"] if "secretRef" in each
        ]
        assert set(secrets) <= names
        assert ("setwise-owner" in secrets) == (container["args"] == ["db", "upgrade"])
    (server,) = pod["containers"]
    probes = {kind: server[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness")}
    assert {probe["path"] for probe in probes.values()} == {"/healthz"}
    # Ready to serve, with or without a model: the first one is added through the Ingress.
    assert server["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_image_of_the_cluster_is_named_once() -> None:
    (image,) = KUSTOMIZATION["images"]
    assert image["name"] == "setwise"
    release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert image["newTag"] == release


def test_the_cluster_has_a_place_for_every_secret_and_forces_a_choice_of_proxies() -> None:
    places = {
        each["name"]: [CLUSTER / name for name in each["envs"]]
        for each in (*KUSTOMIZATION["configMapGenerator"], *KUSTOMIZATION["secretGenerator"])
    }
    assert set(places) == {"setwise", "setwise-owner"}
    settings = _variables(CLUSTER / "settings.env")
    secrets, owner = (_variables(CLUSTER / f"{name}.example.env") for name in ("secrets", "owner"))
    assert {*settings, *secrets, *owner} <= VARIABLES | OF_THE_STORE
    assert {"SETWISE_ENCRYPTION_KEYS", "SETWISE_PEPPER", *OF_THE_STORE} <= set(secrets)
    assert settings["SETWISE_OPEN_METRICS"] == "false"
    with pytest.raises(ValueError, match="takes addresses and networks"):
        Settings(trusted_proxies=settings["SETWISE_TRUSTED_PROXIES"])
    with pytest.raises(ValueError, match="key"):
        Settings(encryption_keys=secrets["SETWISE_ENCRYPTION_KEYS"])
    for name in ("secrets.env", "owner.env"):
        assert f"docker/kubernetes/{name}" in (ROOT / ".gitignore").read_text().splitlines()
        assert not (CLUSTER / name).exists()


@pytest.mark.parametrize("component", ["api", "worker"])
def test_every_pod_has_a_policy_of_its_network_and_a_budget(component: str) -> None:
    labels = _pods()[component]["metadata"]["labels"]

    def chosen(kind: str, member: str) -> list[dict[str, Any]]:
        return [
            each["spec"]
            for each in KUBERNETES
            if each["kind"] == kind
            and each["spec"][member]["matchLabels"].items() <= labels.items()
        ]

    directions = [
        direction
        for policy in chosen("NetworkPolicy", "podSelector")
        for direction in policy["policyTypes"]
    ]
    assert sorted(directions) == ["Egress", "Ingress"]
    assert len(chosen("PodDisruptionBudget", "selector")) == 1


def test_the_number_of_servers_follows_their_load() -> None:
    (scaler,) = (each["spec"] for each in KUBERNETES if each["kind"] == "HorizontalPodAutoscaler")
    (api,) = (
        each
        for each in KUBERNETES
        if each["kind"] == "Deployment"
        and each["metadata"]["name"] == scaler["scaleTargetRef"]["name"]
    )
    assert "replicas" not in api["spec"]  # each apply would undo what the scaler did
    assert scaler["minReplicas"] >= 2


def test_prometheus_operator_has_the_same_alerts_and_a_key() -> None:
    rules, monitor = sorted(_manifests(CLUSTER / "monitoring"), key=lambda each: each["kind"])
    plain = yaml.safe_load((DOCKER / "prometheus" / "rules.yml").read_text())
    assert (rules["kind"], rules["spec"]) == ("PrometheusRule", plain)
    services = [each for each in KUBERNETES if each["kind"] == "Service"]
    ports = {port["name"] for each in services for port in each["spec"]["ports"]}
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in ports
    assert endpoint["authorization"]["credentials"]["name"] == "setwise-metrics"
    # The alerts ask for this job.
    jobs = {each["metadata"]["labels"][monitor["spec"]["jobLabel"]] for each in services}
    assert jobs == {"setwise"}


def test_kustomize_builds_what_is_applied(tmp_path: Path) -> None:
    tools_or_skip("kubectl")
    shutil.copytree(CLUSTER, tmp_path / "cluster")
    for name in ("secrets", "owner"):
        (tmp_path / "cluster" / f"{name}.example.env").rename(tmp_path / "cluster" / f"{name}.env")
    stdout = subprocess.run(
        ["kubectl", "kustomize", tmp_path / "cluster"], capture_output=True, text=True, check=True
    ).stdout
    manifests = list(yaml.safe_load_all(stdout))
    for manifest in manifests:
        kubernetes_validate.validate(manifest, "1.31", strict=True)
    (image,) = KUSTOMIZATION["images"]
    assert set(re.findall(r"image: (\S+)", stdout)) == {f"{image['newName']}:{image['newTag']}"}
    names = {each["metadata"]["name"] for each in manifests}
    assert set(re.findall(r"(?:configMapRef|secretRef):\n\s+name: (\S+)", stdout)) <= names


def test_the_image_installs_what_the_tests_have_seen() -> None:
    pins = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.MULTILINE)
    tested = dict(pins.findall((ROOT / "requirements.lock").read_text()))
    for name in ("requirements.lock", "build.lock"):
        installed = dict(pins.findall((DOCKER / name).read_text()))
        assert installed
        assert installed.items() <= tested.items()
        assert not {"pytest", "ruff", "mypy", "playwright"} & set(installed)


def test_an_install_from_a_lock_resolves_nothing() -> None:
    # Otherwise pip reads "coverage[toml]" as one more requirement, finds a release made since the
    # lock was written, and refuses it because it has no hash.
    for file in (ROOT / "Makefile", DOCKER / "Dockerfile"):
        commands = file.read_text().replace("\\\n", " ").replace("&&", "\n").splitlines()
        from_lock = [
            command for command in commands if re.search(r"(?i)install\b.*\.lock", command)
        ]
        assert from_lock
        assert all("--no-deps" in command for command in from_lock)


def test_the_lock_holds_all_that_its_packages_require() -> None:
    subprocess.run([sys.executable, "-m", "pip", "check"], check=True)
