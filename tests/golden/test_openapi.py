"""The OpenAPI documents of a node and of a registry, whole."""

import json
from pathlib import Path

import pytest

from rye_services.operations.cli import open_node
from rye_services.process.data_folder import make_data
from rye_services.settings import read_settings
from tests.support.golden import Names, compare
from tests.support.workspace import ROOT


@pytest.mark.parametrize("roles", ["node", "registry"])
def test_the_openapi_document_is_as_recorded(tmp_path: Path, names: Names, roles: str) -> None:
    given = {"data_dir": str(tmp_path / "data"), "roles": roles, "open_sign_up": "true"}
    settings = make_data(read_settings(given, {}, tmp_path))
    opened = open_node(settings, ROOT / "bundle.ai", {})
    try:
        document = opened.app.openapi()
    finally:
        opened.database.close()

    shown = json.dumps(document, indent=1, ensure_ascii=False)

    compare(f"openapi/{roles}", names.replaced(shown))
