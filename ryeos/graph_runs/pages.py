"""The page of a run that was walked elsewhere, made here of what was written down of it."""

from pathlib import Path
from typing import Protocol

from ryeos.executor.engine import PrimitiveExecutor
from ryeos.graph.errors import GraphInvalidError
from ryeos.graph.page_file import write_page
from ryeos.graph.reading import read_graph
from ryeos.graph.run_place import run_place
from ryeos.graph.run_reading import load_run
from ryeos.graph_runs.recording import RecordedWorkspace, key_lookup, page_of
from ryeos.metadata import parse_header
from ryeos.sign import Signer


class PagedWorkspace(RecordedWorkspace, Protocol):
    """The public API, as far as pages need it. See `ryeos.app.Rye`."""

    @property
    def executor(self) -> PrimitiveExecutor:
        """What finds and verifies a graph."""


def write_run_page(workspace: PagedWorkspace, graph_id: str, run_id: str) -> Path | None:
    """Write and sign the page of a run, if the item is a graph; None if it is none.

    Raises GraphInvalidError, NoSigningKeyError, and as `load_run` and `write_page`.
    """
    from ryeos.executor.primitives import is_graph

    chain = workspace.executor.build_chain(graph_id)
    tool = chain.tool
    if not is_graph(chain) or tool.item is None:
        return None
    target = tool.item.target
    header = parse_header(target.suffix, tool.item.text, str(target.path))
    reading = read_graph(header, tool.item_id)
    if reading.graph is None:
        raise GraphInvalidError(tool.item_id, reading.errors)
    place = run_place(workspace.context.spaces)
    run = load_run(place, run_id, key_lookup(workspace, place))
    signer = Signer(workspace.signing_key(), workspace.verifier)
    return write_page(place, page_of(reading.graph, run), signer)
