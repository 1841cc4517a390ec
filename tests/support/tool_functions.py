"""Functions of the bundle's tools, called without an engine, for tests with many cases."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.workspace import BUNDLE_SOURCE


def tool_module(item_id: str) -> ModuleType:
    """The module of a tool, with what it imports from the ``lib`` beside it."""
    path = BUNDLE_SOURCE / "tools" / f"{item_id}.py"
    library = str(path.parent / "lib")
    if library not in sys.path:
        sys.path.append(library)
    name = f"bundle_tool_{item_id.replace('/', '_')}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec
        assert spec.loader
        module = importlib.util.module_from_spec(spec)
        # All files in the folder are part of the bundle: write no bytecode there.
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "dont_write_bytecode", True)
            spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]


def call(item_id: str, project: Path, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The answer of the tool to these parameters and the defaults of its schema."""
    module = tool_module(item_id)
    properties = module.CONFIG_SCHEMA["properties"]
    defaults = {name: one["default"] for name, one in properties.items() if "default" in one}
    answer: dict[str, Any] = module.execute({**defaults, **params}, str(project))
    return answer


def refused(item_id: str, project: Path, **params: Any) -> str:  # noqa: ANN401 - JSON
    """The error of the tool's answer. A success fails the test."""
    answer = call(item_id, project, **params)
    assert answer["success"] is False, answer
    error: str = answer["error"]
    return error
