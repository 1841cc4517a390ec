"""The page of a run as a file: written whole, signed with the user's key where there is one."""

from pathlib import Path

from lillux.files import is_inside, make_directory, safe_join, write_atomic
from ryeos.graph.page import RunPage, render_page
from ryeos.graph.run_errors import RunPlaceError
from ryeos.graph.run_ids import check_run_id
from ryeos.graph.run_place import RunPlace
from ryeos.items import ItemRef, Kind, check_id
from ryeos.sign import Signer
from ryeos.sign_targets import SignTarget


def page_path(place: RunPlace, graph_id: str, run_id: str) -> Path:
    """Where the page is. Raises InvalidRefError, RunIdError, RunPlaceError."""
    folder = place.space.directory(Kind.KNOWLEDGE)
    if not is_inside(folder, place.ai):
        raise RunPlaceError(str(folder), "expected a folder, found a link")
    return safe_join(folder, f"{_item_id(graph_id, run_id)}.md")


def write_page(place: RunPlace, page: RunPage, signer: Signer | None) -> Path:
    """Write the page, and sign it. Raises as `page_path`, FileSystemError, and as `Signer.sign`."""
    path = page_path(place, page.graph_id, page.run_id)
    make_directory(path.parent)
    write_atomic(path, render_page(page).encode("utf-8", "backslashreplace"))
    if signer is not None:
        ref = ItemRef(Kind.KNOWLEDGE, _item_id(page.graph_id, page.run_id))
        target = SignTarget(path=path, kind=Kind.KNOWLEDGE, space=place.space, ref=ref)
        signer.sign(target, force=True)
    return path


def _item_id(graph_id: str, run_id: str) -> str:
    check_id(graph_id)
    return f"state/graphs/{graph_id}/{check_run_id(run_id)}"
