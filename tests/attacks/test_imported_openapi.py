"""Imported OpenAPI documents: an import sends no request, and a changed tool does not run."""

import json
from pathlib import Path

import pytest

from ryeos.items.refs import Space
from tests.support.command_line import CommandLine
from tests.support.http_servers import Exchange, Server


@pytest.fixture
def signer(tmp_path: Path, bundle: Space) -> CommandLine:
    cli = CommandLine(tmp_path, bundle)
    assert cli("keys", "generate").status == 0
    return cli


def write(signer: CommandLine, url: str, description: str = "Adds") -> Path:
    path = signer.project / "openapi.json"
    operation = {
        "operationId": "addItem",
        "summary": description,
        "parameters": [{"name": "id", "in": "path", "schema": {"type": "string"}}],
        "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
    }
    said = {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": url}],
        "paths": {"/items/{id}": {"post": operation}},
    }
    path.write_text(json.dumps(said), "utf-8")
    return path


def reply(exchange: Exchange) -> None:
    exchange.answer(200, b'{"ok": true}', content_type="application/json")


def test_an_operation_is_imported_run_changed_and_refused(signer: CommandLine) -> None:
    with Server(reply) as server:
        write(signer, server.url)
        made = signer("import", "--yes", "--json")
        before = len(server.requests)
        ran = signer("run", "api/shop/add-item", "id=a/../b", 'body={"n":1}', "--json").json
        (seen,) = server.requests
        tool = signer.project / ".ai/tools/api/shop/add-item.yaml"
        tool.write_text(tool.read_text("utf-8").replace("/items/", "/other/"), "utf-8")
        refused = signer("run", "api/shop/add-item", "id=1", "--json")

        assert made.status == 0, made.stdout + made.stderr
        assert before == 0
        assert ran["data"]["body"] == {"ok": True}
        assert seen.target == "/items/a%2F..%2Fb"
        assert (refused.status, refused.json["code"]) == (4, "INTEGRITY")
        assert len(server.requests) == 1


def test_a_changed_document_is_a_conflict_and_not_a_change(signer: CommandLine) -> None:
    write(signer, "https://a.example")
    signer("import", "--yes")
    write(signer, "https://evil.example")

    done = signer("import", "--yes", "--json").json

    assert [item["state"] for item in done["items"]] == ["conflict"]
    tool = (signer.project / ".ai/tools/api/shop/add-item.yaml").read_text("utf-8")
    assert "evil.example" not in tool


def test_a_description_steers_nothing(signer: CommandLine) -> None:
    write(signer, "https://a.example", "a\x1b[2Jb\u202ec ${HOME} {id}\n# x\nsandbox: off")

    done = signer("import", "--yes")

    assert done.status == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    shown = signer("sandbox", "show", "api/shop/add-item").stdout
    assert "a.example:443" in shown


def test_a_huge_document_is_not_read(signer: CommandLine) -> None:
    with (signer.project / "openapi.json").open("wb") as file:
        file.truncate(100 * 1024 * 1024)

    assert signer("import", "openapi.json").status == 6
