"""The JSON Schemas for editors: they agree with our own readers."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema.validators import validator_for

from ryeos.graph.problems import GraphProblem
from ryeos.graph.reading import read_graph
from ryeos.graph.schemas import SCHEMAS
from ryeos.items.errors import SpecError
from ryeos.items.specs import tool_spec
from ryeos.items.unknown_keys import unknown_key_warnings
from ryeos.items.yaml import parse_yaml

ROOT = Path(__file__).parents[3]
TOOLS = sorted((ROOT / "bundle.ai" / "tools").rglob("*.yaml"))
VALIDATORS = {name: validator_for(SCHEMAS[name])(SCHEMAS[name]) for name in SCHEMAS}
GRAPH = parse_yaml(
    """
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: demo
description: Everything that a graph file can have
permissions: ["rye.execute.tool.demo.*"]
limits: {depth: 3}
env_requires: [HOME]
config_schema: {type: object, properties: {nums: {type: array}}}
config:
  start: add
  max_steps: 20
  max_concurrency: 4
  on_error: continue
  timeout: 60.5
  result: both
  state: {label: unset}
  hooks:
    - {event: error, condition: {path: error.error, op: contains, value: x}, layer: 1, id: again,
       action: {retry: true, max_retries: 2}}
    - {event: limit, action: {item_id: "tool:demo/tell", params: {text: "${state.label}"}}}
    - {event: error, action: fail}
  nodes:
    add:
      comment: adds
      action: {primary: execute, item_id: demo/add, kind: tool, params: {a: 1, b: 2}}
      assign: {total: "${result.sum}"}
      retry: {max: 2, backoff: exponential, delay: 0.5}
      timeout: 5
      cache_result: true
      cache_ttl: 60
      remote: gpu
      env_requires: HOME
      async: false
      on_error: route
      next: route
    route:
      type: gate
      assign: {label: big}
      next:
        - to: fan
          when: {any: [{path: state.total, op: gte, value: 3}, {not: {path: state.label}}]}
        - {to: fan, when: {all: [{path: inputs.nums, op: exists}]}}
        - {to: done}
    fan:
      type: foreach
      over: "${inputs.nums}"
      as: n
      collect: squares
      parallel: true
      max_concurrency: 2
      fail_fast: false
      action: {item_id: "tool:demo/square", params: {n: "${n}"}}
      next: done
    done: {type: return, output: {label: "${state.label}"}}
""",
    "graph",
)
# Problems that a schema cannot see: they need the whole file, or more than JSON Schema.
MEANING = (
    *("there is no node", "kind", "canonical ref", "expected an item_id", "an item that can be"),
    *("which means the", "control", "deprecated", "cannot be started", "pipe", "expression"),
    *("item reference", "not used on a node", "is not used beside", "no expression can name"),
    *(
        "leads to itself",
        "never",
        "no way leads",
        "permits nothing",
        "do not cover",
        "no node of type return",
    ),
    *(
        "the graph has none",
        "denies every call",
        "what the graph may call",
        "config_schema",
        "there is nothing called",
    ),
    *("tried", "expected a path", "path", "compare", "looks at no value", "regular expression"),
    *("list to look in", "names a", "goes into a command", "in params", "characters that can be"),
)


def is_accepted(name: str, data: object) -> bool:
    return bool(VALIDATORS[name].is_valid(data))


def structural(problems: tuple[GraphProblem, ...]) -> list[GraphProblem]:
    return [problem for problem in problems if not any(word in problem.text for word in MEANING)]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401
    """The path of everything inside a value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in entries:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*path, key))


def changed(data: Any, path: tuple[Any, ...], value: object) -> Any:  # noqa: ANN401
    """A copy with another value at a path; without it for ``...``."""
    copied = copy.deepcopy(data)
    holder = copied
    for key in path[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[path[-1]]
    else:
        holder[path[-1]] = value
    return copied


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_json_of_draft_7(name: str) -> None:
    schema = SCHEMAS[name]

    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert json.loads(json.dumps(schema)) == schema


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_key_has_a_description_for_editors(name: str) -> None:
    def undescribed(schema: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401
        if isinstance(schema, dict):
            for key, inner in (schema.get("properties") or {}).items():
                is_known = isinstance(inner, dict) and ("description" in inner or "$ref" in inner)
                if not is_known and key != "type":
                    yield f"{path}/{key}"
            for key, inner in schema.items():
                yield from undescribed(inner, f"{path}/{key}")
        elif isinstance(schema, list):
            for index, inner in enumerate(schema):
                yield from undescribed(inner, f"{path}/{index}")

    assert list(undescribed(SCHEMAS[name])) == []


@pytest.mark.parametrize("path", TOOLS, ids=lambda path: path.stem)
def test_every_tool_of_the_bundle_fits_its_schema(path: Path) -> None:
    header = parse_yaml(path.read_text(encoding="utf-8"), "header")
    kind = header["tool_type"]

    VALIDATORS[kind if kind in SCHEMAS else "tool"].validate(header)
    VALIDATORS["tool"].validate(header)


def test_a_graph_with_every_key_fits_its_schema_and_its_reader() -> None:
    reading = read_graph(GRAPH, "demo/all")

    assert (reading.errors, is_accepted("graph", GRAPH)) == ((), True)
    assert structural(reading.warnings) == []


BASELINE = {*read_graph(GRAPH, "demo/all").warnings}
PLACES = sorted(places(GRAPH), key=repr)
# No values that could be right by chance, and no 3.0: to a schema that is a whole number.
VALUES = st.one_of(
    st.just(...),
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.just(10**9),
    st.floats(-2, 200, allow_nan=False).filter(lambda number: not number.is_integer()),
    st.sampled_from(["", "  ", "x", "add", "fan", "gate", "return", "foreach", "state"]),
    st.lists(st.sampled_from(["x", "", 1, None]), max_size=2),
    st.dictionaries(st.sampled_from(["x", "to", "path", "type"]), st.integers(), max_size=2),
)


@given(path=st.sampled_from(PLACES), value=VALUES)
def test_reader_and_schema_refuse_the_same_structure(path: tuple[Any, ...], value: object) -> None:
    graph = changed(GRAPH, path, value)

    reading = read_graph(graph, "demo/all")

    refused = structural(reading.errors) or structural(reading.warnings)
    if is_accepted("graph", graph):
        assert refused == []
    else:
        assert {*reading.errors, *reading.warnings} - BASELINE


@given(path=st.sampled_from(PLACES), key=st.sampled_from(["typo", "Start", "nexts", "x-mine"]))
def test_an_unknown_key_is_reported_by_both(path: tuple[Any, ...], key: str) -> None:
    holder: Any = GRAPH
    for step in path:
        holder = holder[step]
    if not isinstance(holder, dict):
        return
    graph = changed(GRAPH, (*path, key), {})

    warnings = [p for p in read_graph(graph, "demo/all").warnings if "unknown key" in p.text]

    assert bool(warnings) <= (not is_accepted("graph", graph))


@pytest.mark.parametrize("path", TOOLS, ids=lambda path: path.stem)
def test_values_that_readers_of_headers_refuse_are_refused_by_the_schema(path: Path) -> None:
    header = parse_yaml(path.read_text(encoding="utf-8"), "header")
    name = "runtime" if header["tool_type"] == "runtime" else "tool"
    chosen = random.Random(path.stem)  # noqa: S311 - no secret
    values: list[object] = [1, True, "", "x", [], [1], {}, {"typo": 1}]
    for place in places(header):
        if place[0] in {"tool_type", "config_schema", "config", "config_resolve"}:
            continue
        data = changed(header, place, chosen.choice(values))
        accepted, read = is_accepted(name, data), _reads(data, place)
        # The contents of a block are read by the run alone, and the schema is the stricter one.
        assert accepted == read if len(place) == 1 else accepted <= read, (place, data)


def _reads(header: dict[str, Any], place: tuple[Any, ...]) -> bool:
    """Whether our readers accept it: parts that only the run reads are not examined."""
    try:
        spec = tool_spec(header, ".yaml")
    except SpecError:
        return False
    return not list(unknown_key_warnings(spec, ".yaml", str(place)))
