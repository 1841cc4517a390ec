"""Metrics: their values, who may read them, and that dashboard and alerts use existing ones."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from rye_services.process.metrics import Figure, Metrics
from rye_services.process.watch import FIGURES_WAIT_S
from rye_services.storage.database import Database
from tests.support.databases import database_url, made_database
from tests.support.endings import wait_until
from tests.support.node import Node, Reply, running_node
from tests.support.programs import require_program
from tests.support.registry import Registry
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import ROOT, Workspace

DASHBOARD = ROOT / "deploy" / "grafana-dashboard.json"
ALERTS = ROOT / "deploy" / "alerts.yaml"
_NAME = re.compile(r"\b(?:rye|process|python)_[a-z_]+\b")

Samples = dict[str, dict[frozenset[tuple[str, str]], float]]


def scraped(node: Node) -> Samples:
    """The metrics, none older than this call, by name and by labels."""
    token, since_s = node.user(scopes=("node.metrics",)).bearer, time.time()
    found: Samples = {}

    def is_new() -> bool:
        reply = node.ask("GET", "/metrics", headers=token)
        assert reply.status == 200, reply.body
        found.update(samples_of(reply.body.decode()))
        return found["rye_figures_read_timestamp_seconds"][labels()] >= since_s

    wait_until(is_new)
    return found


def samples_of(body: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(body):
        found.setdefault(family.name, {})
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


def labels(**values: str) -> frozenset[tuple[str, str]]:
    return frozenset(values.items())


@pytest.fixture(scope="module")
def used_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that tests may use."""
    with running_node(tmp_path_factory.mktemp("figures") / "node") as running:
        yield running


@pytest.fixture
def project(used_node: Node, workspace: Workspace) -> RemoteProject:
    return RemoteProject.with_tools(workspace, used_node.user())


# --- values ---------------------------------------------------------------------------------------


def test_executions_are_counted_by_how_they_ended(project: RemoteProject) -> None:
    node = project.user.node
    project.execute("tool:echo")
    project.script("exit 3")
    project.begun("true")
    during = scraped(node)
    project.release()

    assert during["rye_executions_total"][labels(state="completed")] >= 1
    assert during["rye_executions_total"][labels(state="error")] >= 1
    assert during["rye_execution_duration_seconds_count"][labels(state="error")] >= 1
    assert during["rye_executions_running"][labels()] == 1
    assert during["rye_execution_places"][labels()] == node.settings.max_concurrent
    assert during["rye_executions_queued"][labels()] == 0
    assert during["rye_executions_kept"][labels(state="running")] == 1


def test_a_cancelled_execution_is_not_counted_as_an_error(project: RemoteProject) -> None:
    node = project.user.node
    before = scraped(node)["rye_executions_total"]
    thread_id = project.begun("true")
    project.user.ask("POST", f"/threads/{thread_id}/cancel")
    project.ended(thread_id)

    after = scraped(node)["rye_executions_total"]

    gained = {dict(key)["state"]: after[key] - before[key] for key in after}
    assert {state: count for state, count in gained.items() if count} == {"cancelled": 1}


def test_requests_are_counted_by_the_template_of_their_route(used_node: Node) -> None:
    user = used_node.user()
    user.ask("GET", "/threads/unknown-thread")
    used_node.ask("GET", "/nothing/at/all")
    used_node.ask("BREW", "/live")
    used_node.ask("GET", "/mcp")

    requests = scraped(used_node)["rye_requests_total"]

    assert requests[labels(method="GET", route="/threads/{thread_id}", status="404")] == 1
    assert requests[labels(method="GET", route="unmatched", status="404")] == 1
    assert requests[labels(method="GET", route="/mcp", status="405")] == 1
    assert requests[labels(method="other", route="/live", status="405")] == 1


def test_a_packed_request_is_counted_by_its_route_too(used_node: Node) -> None:
    import gzip

    body = gzip.compress(b'{"hashes": []}')
    headers = {**used_node.user().bearer, "Content-Encoding": "gzip"}
    assert used_node.ask("POST", "/objects/has", body, headers=headers).status == 200

    requests = scraped(used_node)["rye_requests_total"]

    assert requests[labels(method="POST", route="/objects/has", status="200")] >= 1


def test_a_sweep_is_counted_and_a_dry_run_is_not(project: RemoteProject) -> None:
    node = project.user.node
    node.owner.ask("POST", "/gc?dry_run=true")
    before = scraped(node)
    node.owner.ask("POST", "/gc")

    after = scraped(node)

    def users_swept(samples: Samples) -> float:
        return sum(samples.get("rye_sweeps_total", {}).values())

    assert users_swept(after) > users_swept(before)
    assert after["rye_stored_objects"][labels()] > 0
    last = "rye_last_sweep_timestamp_seconds"
    assert after[last][labels()] > before[last][labels()]


def test_totals_are_those_of_the_tables(project: RemoteProject) -> None:
    samples = scraped(project.user.node)

    assert samples["rye_users"][labels()] >= 1
    assert samples["rye_stored_bytes"][labels()] > 1000
    assert samples["rye_disk_free_bytes"][labels(folder="stores")] > 0
    assert [dict(one)["version"] for one in samples["rye_build_info"]] != [""]


def test_no_metric_contains_a_user_a_path_or_an_item(project: RemoteProject) -> None:
    node = project.user.node
    project.execute("tool:echo")
    token = node.user(scopes=("node.metrics",)).bearer

    body = node.ask("GET", "/metrics", headers=token).body.decode()

    for secret in (project.user.user_id, str(node.data), "tool:", "echo", project.name + '"'):
        assert secret not in body


def test_errors_of_the_database_are_counted_by_their_class(tmp_path: Path) -> None:
    database, metrics = made_database(tmp_path), Metrics()
    database.on_error(metrics.database_error)

    with pytest.raises(SQLAlchemyError) as error, database.reading() as connection:
        connection.execute(text("SELECT nothing FROM nowhere"))

    counted = samples_of(metrics.text()[0].decode())["rye_database_errors_total"]
    assert counted == {labels(kind=type(error.value).__name__): 1.0}


def test_two_applications_in_one_process_count_separately() -> None:
    first, second = Metrics(), Metrics()

    first.request_began()
    first.request_ended("GET", "/live", 200, 0.1)

    assert samples_of(first.text()[0].decode())["rye_requests_total"] != {}
    assert "rye_requests_total" not in samples_of(second.text()[0].decode())


def test_a_metric_that_cannot_be_read_keeps_its_last_value() -> None:
    metrics, answers = Metrics(), [7.0]

    def read() -> list[Figure]:
        if not answers:
            raise SQLAlchemyError("away")
        return [Figure(name="rye_users", words="Users", values={"": answers.pop()})]

    metrics.add_read(read)
    metrics.read()
    metrics.read()

    assert samples_of(metrics.text()[0].decode())["rye_users"] == {labels(): 7.0}


# --- who may read ---------------------------------------------------------------------------------


def test_reading_metrics_needs_their_scope(shared_node: Node) -> None:
    ask = partial(shared_node.ask, "GET", "/metrics")

    assert ask().status == 401
    assert ask(headers=shared_node.user().bearer).answer == (
        403,
        {"detail": "this key lacks the scope node.metrics"},
    )
    figures = ask(headers=shared_node.user(scopes=("node.metrics",)).bearer)
    assert figures.status == 200
    assert figures.headers["content-type"].startswith("text/plain; version=")


def test_a_new_key_waits_for_a_slow_database(
    tmp_path: Path,
) -> None:
    environ = {"RYE_NODE_DATABASE_URL": database_url(tmp_path, "postgresql")}
    with running_node(tmp_path / "node", environ=environ) as node, ThreadPoolExecutor(1) as pool:
        token = node.user(scopes=("node.metrics",)).bearer
        database = Database(node.settings.database_url)
        with database.writing() as holder:
            holder.execute(text("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE"))
            request, began_s = pool.submit(node.ask, "GET", "/metrics", headers=token), monotonic()
            wait_until(lambda: monotonic() - began_s > 1.5 * FIGURES_WAIT_S)
        reply = request.result()
        database.close()

    assert reply.status == 200


def test_a_metrics_key_gives_no_other_access(shared_node: Node) -> None:
    user = shared_node.user(scopes=("node.metrics",))

    refused = [user.ask("GET", path).status for path in ("/threads", "/secrets", "/user-space")]

    assert refused == [403, 403, 403]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("mode", "direct", "forwarded"),
    [("closed", 404, 404), ("loopback", 200, 401), ("open", 200, 200), ("key", 401, 401)],
)
def test_a_setting_says_who_may_read_metrics(
    tmp_path: Path, mode: str, direct: int, forwarded: int
) -> None:
    def answers(node: Node) -> list[int]:
        hop: dict[str, str] = {"X-Forwarded-For": "203.0.113.9"}
        replies: list[Reply] = [node.ask("GET", "/metrics", headers=one) for one in ({}, hop)]
        return [reply.status for reply in replies]

    with running_node(tmp_path / "node", environ={"RYE_NODE_METRICS": mode}) as node:
        assert answers(node) == [direct, forwarded]


def test_a_registry_has_metrics(shared_registry: Registry) -> None:
    samples = scraped(shared_registry.node)

    assert samples["rye_check_ok"][labels(check="database")] == 1
    assert "rye_execution_places" not in samples


# --- dashboard and alerts -------------------------------------------------------------------------


def dashboard_queries() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return queries + [one["query"] for one in dashboard["templating"]["list"]]


def alert_rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_dashboard_and_alerts_use_existing_metrics(project: RemoteProject) -> None:
    project.execute("tool:echo")
    project.user.node.owner.ask("POST", "/gc")
    there = scraped(project.user.node).keys()
    queries = [*dashboard_queries(), *(rule["expr"] for rule in alert_rules())]

    used = {name for query in queries for name in _NAME.findall(query)}

    # A counter without a label that nothing has counted yet has a name and no sample.
    known = there | {f"{name}_total" for name in there}
    assert len(used) > 20
    assert used - known == set()


def test_every_alert_is_documented() -> None:
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")

    assert [rule["alert"] for rule in alert_rules() if f"`{rule['alert']}`" not in page] == []


def test_every_metric_is_documented(project: RemoteProject) -> None:
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    parts = re.compile(r"_(?:total|bucket|count|sum|created)$")
    ours = {parts.sub("", name) for name in scraped(project.user.node) if name.startswith("rye_")}

    assert {name for name in ours if f"`{name}" not in page} == set()


NODE = 'instance="a",job="rye-node"'
SLOW = f'rye_request_duration_seconds_bucket{{{NODE},route="/health"'
FIRES: dict[str, dict[str, str]] = {
    "RyeNodeDown": {f"up{{{NODE}}}": "0x60"},
    "RyeNodeNotReady": {f'rye_check_ok{{{NODE},check="disk"}}': "0x60"},
    "RyeNodeDiskFills": {f'rye_disk_free_bytes{{{NODE},folder="data"}}': "1e9x60"},
    "RyeNodeErrors": {f'rye_requests_total{{{NODE},status="500"}}': "0+30x60"},
    "RyeNodeSlow": {
        f'{SLOW},le="0.05"}}': "0x60",
        f'{SLOW},le="1"}}': "0+9x60",
        f'{SLOW},le="+Inf"}}': "0+9x60",
    },
    "RyeExecutionsFail": {f'rye_executions_total{{{NODE},state="failed"}}': "0+1x60"},
    "RyeQueueWaits": {
        f"rye_executions_queued{{{NODE}}}": "3x60",
        f"rye_executions_running{{{NODE}}}": "8x60",
        f"rye_execution_places{{{NODE}}}": "8x60",
    },
    "RyeExecutionsRefused": {
        f'rye_requests_total{{{NODE},route="/execute",status="503"}}': "0+5x60"
    },
    "RyeDatabaseErrors": {
        f'rye_database_errors_total{{{NODE},kind="OperationalError"}}': "0+60x60"
    },
    "RyeSweepRefused": {f'rye_sweeps_total{{{NODE},state="refused"}}': "0x30 1x30"},
    "RyeSweepMissing": {f"rye_last_sweep_timestamp_seconds{{{NODE}}}": "-1e6x90"},
    "RyeNodeRefusesKeys": {f'rye_requests_total{{{NODE},status="401"}}': "0+600x60"},
}
"""By the name of an alert: series that it has to fire for, a value each minute."""


def promtool(*words: str, sent: str = "") -> subprocess.CompletedProcess[str]:
    """The output of promtool; the test skips where it is not installed."""
    program = require_program("promtool")  # it comes with Prometheus
    return subprocess.run(
        [program, *words], input=sent, capture_output=True, text=True, encoding="utf-8", check=False
    )


def test_promtool_accepts_the_alerts() -> None:
    ended = promtool("check", "rules", str(ALERTS))

    assert (ended.returncode, ended.stderr) == (0, "")


def test_promtool_accepts_the_names_and_types_of_the_metrics(used_node: Node) -> None:
    token = used_node.user(scopes=("node.metrics",)).bearer
    body = used_node.ask("GET", "/metrics", headers=token).body.decode()

    ended = promtool("check", "metrics", sent=body)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.parametrize("alert", [rule["alert"] for rule in alert_rules()])
def test_each_alert_fires_when_its_problem_persists(tmp_path: Path, alert: str) -> None:
    series = [{"series": name, "values": values} for name, values in FIRES[alert].items()]
    fires = {
        "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
        "eval_time": "90m" if alert == "RyeSweepMissing" else "60m",
        "exp_samples": [{"labels": "{}", "value": 1}],
    }
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [fires]}
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": [test]}), "utf-8")

    ended = promtool("test", "rules", str(file))

    assert ended.returncode == 0, ended.stdout + ended.stderr
