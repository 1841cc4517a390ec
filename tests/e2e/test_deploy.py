"""The files of ``deploy/`` are followed to their end, on this machine."""

import json
import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml

from rye_services.settings import read_settings
from ryeos.remote.identity import read_identity
from tests.support.built import BASE_PYTHON, Machine
from tests.support.environments import STRANGER, shared_file
from tests.support.node import running_node
from tests.support.programs import require_program, unavailable
from tests.support.workspace import ROOT

# Settings that begin with these words say what a service must not do.
CONFINES = ("NoNew", "Capability", "Ambient", "Protect", "Private", "Restrict", "System", "UMask")

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="containers and units are for Linux"),
    pytest.mark.heavy,
]


def test_the_steps_of_the_container_file_end_in_a_node_that_answers() -> None:
    if os.geteuid() != 0:
        unavailable("the container file gives a folder to another user, which takes root")

    tried = subprocess.run(
        [sys.executable, "-m", "packing.deploy_trial", "--venv", str(ROOT / "build" / "venv")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )

    assert tried.returncode == 0, tried.stdout + tried.stderr
    assert "answers on http://127.0.0.1:" in tried.stdout


def test_a_registrys_unit_is_confined_as_the_nodes_is() -> None:
    node, registry = (
        set((ROOT / "deploy" / f"rye-{name}.service").read_text("utf-8").splitlines())
        for name in ("node", "registry")
    )
    confined = {line for line in node if line.partition("=")[0].startswith(CONFINES)}

    assert len(confined) > len(CONFINES)
    # What a node makes for its executions; a registry has none.
    of_executions = {"RestrictNamespaces=user pid mnt ipc cgroup", "SystemCallFilter=unshare mount"}
    assert confined - registry == of_executions
    assert "RestrictNamespaces=yes" in registry
    assert "ExecStart=/usr/bin/python3 /opt/rye/rye-node.pyz serve --role registry" in registry


def test_the_modal_app_starts_the_program_of_the_container_file() -> None:
    source = (ROOT / "deploy" / "modal_app.py").read_text("utf-8")
    container = (ROOT / "deploy" / "Containerfile").read_text("utf-8")

    for name in ("/opt/rye/rye-node.pyz", "RYE_NODE_DATA", "RYE_NODE_HOST", "PORT"):
        assert name in source
        assert name in container
    compile(source, "modal_app.py", "exec")


CHART, COMPOSE = ROOT / "deploy" / "chart", ROOT / "deploy" / "compose.yaml"
EVERYTHING = (
    *("--set", "trial.enabled=true", "--set", "trial.password=p/q", "--set", "trial.s3Secret=s"),
    *("--set", "worker.scaling.kind=keda", "--set", "server.scaling.enabled=true"),
    *("--set", "ingress.enabled=true", "--set", "serviceMonitor.enabled=true"),
)


def helm(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """The output of helm."""
    return subprocess.run(
        [require_program("helm"), *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def rendered(*arguments: str) -> str:
    """The objects of the chart, as a cluster is given them."""
    done = helm("template", "one", str(CHART), "--kube-version", "1.31.0", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(text: str) -> dict[str, dict[str, Any]]:
    """Objects by kind and name."""
    found = [one for one in yaml.safe_load_all(text) if one]
    return {f"{one['kind']} {one['metadata']['name']}": one for one in found}


@pytest.mark.parametrize(
    "arguments", [(), EVERYTHING, ("--set", "worker.scaling.kind=hpa")], ids=["plain", "all", "hpa"]
)
def test_the_chart_is_accepted_by_kubernetes(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    validate = require_program("kubernetes-validate")
    path = tmp_path / "chart.yaml"
    path.write_text(rendered(*arguments), encoding="utf-8")

    linted = helm("lint", "--strict", str(CHART), *arguments)
    checked = subprocess.run(
        [validate, "--strict", "-k", "1.31", path], capture_output=True, check=False
    )

    assert linted.returncode == 0, linted.stdout
    assert checked.returncode == 0, (checked.stdout + checked.stderr).decode()


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("store.url=/srv/store", "store.url"),
        ("worker.scaling.kind=cron", "worker.scaling.kind"),
        ("sever.replicas=2", "sever"),
        ("worker.places=0", "worker.places"),
    ],
)
def test_the_chart_refuses_a_value_that_cannot_be(setting: str, problem: str) -> None:
    done = helm("template", "one", str(CHART), "--kube-version", "1.31.0", "--set", setting)

    assert done.returncode != 0
    assert problem.rpartition(".")[2] in done.stderr


def test_pods_share_no_claim_and_mount_the_keys_read_only() -> None:
    found = objects(rendered(*EVERYTHING))

    claims = {name: one for name, one in found.items() if name.startswith("PersistentVolumeClaim")}
    assert claims == {}
    for name in ("server", "worker"):
        pod = found[f"Deployment one-{name}"]["spec"]["template"]["spec"]
        assert not [one for one in pod["volumes"] if "persistentVolumeClaim" in one]
        (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == "keys"]
        assert mount["readOnly"] is True


def test_a_claim_of_a_former_chart_is_mounted_while_it_is_named() -> None:
    found = objects(rendered("--set", "keys.claim=one-shared"))

    pod = found["Deployment one-server"]["spec"]["template"]["spec"]
    environ = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
    (volume,) = [one for one in pod["volumes"] if one["name"] == "keys"]
    assert volume["persistentVolumeClaim"] == {"claimName": "one-shared"}
    assert environ["SIGNING_KEY_DIR"] == "/opt/rye/keys/signing"
    assert environ["NODE_CONFIG_DIR"] == "/opt/rye/keys/config"


def test_a_node_serves_with_the_keys_as_the_chart_mounts_them(
    built_node_pyz: Path, tmp_path: Path
) -> None:
    with shared_file(built_node_pyz) as shared:
        (tmp_path / "maker").mkdir()
        maker = Machine(tmp_path / "maker", BASE_PYTHON, "-I", built_node_pyz)
        ended = maker.run("keys", "export", "rye-node-keys", "--data", str(tmp_path / "made"))
        assert ended.returncode == 0, ended.stderr
        secret = json.loads(ended.stdout)
        pod = objects(rendered())["Deployment one-server"]["spec"]["template"]["spec"]
        folder = _mounted(shared.make("keys", 0o755), pod["volumes"], secret)
        data = shared.make("home", 0o755) / "node"
        command: tuple[str, ...] = (str(BASE_PYTHON), "-I", str(shared.pyz))
        if os.geteuid() == 0:  # as in the container: a user who may write nothing there
            shutil.chown(data.parent, STRANGER, STRANGER)
            who = (f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups")
            command = (str(require_program("setpriv")), *who, *command)
        environ = {"SIGNING_KEY_DIR": str(folder), "RYE_NODE_ROLES": "all"}
        with running_node(data, command=command, environ=environ) as node:
            identity = read_identity(node.ask("GET", "/public-key").json)
            ready = node.ask("GET", "/ready")
            said = "".join(node.log)

    own = json.loads(maker.run("keys", "export", "x", "--data", str(tmp_path / "made")).stdout)
    assert ready.status == 200, ready.json
    assert own["data"] == secret["data"]
    assert identity.created_at == b64decode(secret["data"]["created_at"]).decode()
    assert identity.node_id in ended.stderr
    assert "can be read by others" not in said


def _mounted(folder: Path, volumes: list[dict[str, Any]], secret: dict[str, Any]) -> Path:
    """The folder of a mounted volume of keys as a pod finds it: links, as kubelet makes them."""
    (volume,) = [one["secret"] for one in volumes if one["name"] == "keys"]
    assert volume["secretName"] == secret["metadata"]["name"]
    content = folder / "..2026_11_24_08_00_00.1"
    for item in volume["items"]:
        path = content / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b64decode(secret["data"][item["key"]]))
        path.chmod(0o440)  # `defaultMode`, and the addition of `fsGroup`
        if os.geteuid() == 0:
            os.chown(path, 0, STRANGER)
    assert {item["key"] for item in volume["items"]} == set(secret["data"])
    (folder / "..data").symlink_to(content.name)
    for name in {item["path"].partition("/")[0] for item in volume["items"]}:
        (folder / name).symlink_to(Path("..data", name))
    for path in (content, *content.rglob("*")):
        if path.is_dir() and os.geteuid() != 0:
            path.chmod(0o555)
    return folder


def test_pods_have_more_time_to_end_than_their_processes() -> None:
    found = objects(rendered("--set", "shutdownTimeoutSeconds=90"))

    for name in ("server", "worker"):
        pod = found[f"Deployment one-{name}"]["spec"]["template"]["spec"]
        environ = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
        assert environ["RYE_NODE_SHUTDOWN_TIMEOUT_S"] == "90"
        assert pod["terminationGracePeriodSeconds"] == 110


def test_workers_are_scaled_by_a_figure_that_servers_have() -> None:
    scaled = objects(rendered("--set", "worker.scaling.kind=keda"))["ScaledObject one-worker"]
    figures = (ROOT / "rye_services/node/runs/cluster_executions.py").read_text("utf-8")
    query = scaled["spec"]["triggers"][0]["metadata"]["query"]

    names = set(re.findall(r"rye_\w+", query))

    assert names == {"rye_cluster_executions_queued", "rye_cluster_executions_running"}
    assert all(f'"{name}"' in figures for name in names)
    assert query.startswith("max(")  # each server reports the figure of the whole cluster
    assert "replicas" not in objects(rendered(*EVERYTHING))["Deployment one-worker"]["spec"]


def composed(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Our file as the library of `docker compose` reads and validates it."""
    program = require_program("compose-config")  # it takes no variables from its environment
    return subprocess.run(
        [program, *arguments, COMPOSE.name],
        cwd=COMPOSE.parent,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def test_the_compose_file_is_a_cluster_of_three_servers_and_four_workers() -> None:
    done = composed("-no-interpolation")

    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    assert set(services) == {"init", "server", "worker", "proxy", "postgresql", "s3", "bucket"}
    assert services["server"]["deploy"]["replicas"] == 3
    assert services["worker"]["deploy"]["replicas"] == 4
    (made,) = services["init"]["volumes"]
    assert "read_only" not in made
    for name in ("server", "worker"):
        environ = services[name]["environment"]
        assert environ["DATABASE_URL"].endswith("@postgresql/rye")
        (keys,) = services[name]["volumes"]
        assert (keys["source"], keys["target"]) == (made["source"], environ["SIGNING_KEY_DIR"])
        assert keys["read_only"] is True
        assert list(services[name]["depends_on"]) == ["init"]
        assert services[name]["stop_grace_period"] == "60s"
        assert int(environ["RYE_NODE_SHUTDOWN_TIMEOUT_S"]) < 60


def test_the_compose_file_wants_passwords() -> None:
    done = composed()

    assert done.returncode != 0
    assert "write it to deploy/.env" in done.stderr


@pytest.mark.parametrize("name", ["compose.yaml", "chart/templates/_helpers.tpl"])
def test_settings_of_a_deployment_are_settings_of_a_node(tmp_path: Path, name: str) -> None:
    text = (ROOT / "deploy" / name).read_text("utf-8")
    names = set(re.findall(r"RYE_NODE_[A-Z_]+", text))
    values = {"SHUTDOWN_TIMEOUT_S": "45", "STORE": "s3://rye/nodes/one", "QUEUE": "cluster"}
    values |= {"STORE_ENDPOINT": "http://s3:7070", "METRICS": "key", "LOG_FORMAT": "json"}
    values |= {"TRUSTED_PROXIES": "10.0.0.0/8", "STORE_REGION": "eu", "ROLES": "all"}

    settings = read_settings(
        {}, {one: values[one.removeprefix("RYE_NODE_")] for one in names}, tmp_path
    )

    assert settings.is_cluster
    assert settings.store == "s3://rye/nodes/one"
