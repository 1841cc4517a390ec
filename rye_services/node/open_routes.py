"""Routes that anybody may ask: ``/health``, ``/public-key``, ``/status``."""

from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter

from rye_services.node.services import NodeServices
from ryeos import __version__
from ryeos.remote.requests import identity_document


def router(services: NodeServices) -> APIRouter:
    """The open routes. None of them waits for a disk or the database."""
    routes = APIRouter(tags=["open"])
    keys = services.keys
    identity = identity_document(
        keys.signing, keys.box_public, keys.created_at, items_pem=keys.items.public_pem
    )
    provided = provided_tools(services.bundle)

    @routes.get("/health")
    async def health() -> dict[str, str]:
        """That the node is there, and its versions."""
        return {
            "status": "ok",
            "version": __version__,
            "engine_version": __version__,
            "ryeos_version": __version__,
        }

    @routes.get("/public-key")
    async def public_key() -> dict[str, Any]:
        """Who the node is: its keys, signed by itself."""
        return identity

    @routes.get("/status")
    async def status() -> dict[str, Any]:
        """How busy the node is, and what it can execute."""
        return {
            "node_id": keys.node_id,
            "node_name": services.settings.name,
            "healthy": True,
            "active": services.capacity.active,
            "max_concurrent": services.capacity.places,
            "capabilities": {"provides": list(provided), "routes": []},
        }

    return routes


@cache
def provided_tools(bundle: Path) -> tuple[str, ...]:
    """What the standard bundle offers: ``rye.execute.tool.`` and the id of a tool, with dots."""
    folder = bundle / ".ai" / "tools"
    found = {
        path.relative_to(folder).with_suffix("").as_posix().replace("/", ".")
        for path in folder.rglob("*")
        if path.is_file() and path.suffix in {".py", ".yaml", ".yml", ".sh", ".js", ".ts"}
    }
    return tuple(f"rye.execute.tool.{name}" for name in sorted(found))
