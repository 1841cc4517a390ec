"""Rye: find, verify and run signed ``.ai/`` items."""

__version__ = "0.1.0"

TYPE_CHECKING = False  # importing `typing` costs more than `rye version` may take
if TYPE_CHECKING:
    from ryeos.app import aio
    from ryeos.app.embedding import (
        DirectiveResolver,
        ItemSignature,
        KnowledgeResolver,
        MetadataManager,
        PrimitiveExecutor,
        ToolResolver,
        export_objects,
        import_objects,
        open_workspace,
        resolve_remote,
    )
    from ryeos.app.workspace import Rye
    from ryeos.items.errors import RyeError

__all__ = [
    "DirectiveResolver",
    "ItemSignature",
    "KnowledgeResolver",
    "MetadataManager",
    "PrimitiveExecutor",
    "Rye",
    "RyeError",
    "ToolResolver",
    "aio",
    "export_objects",
    "import_objects",
    "open_workspace",
    "resolve_remote",
]


def __getattr__(name: str) -> object:
    """What ``import ryeos`` gives, from its module when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'ryeos' has no attribute {name!r}")
    from importlib import import_module

    if name == "aio":
        return import_module("ryeos.app.aio")
    module = {"Rye": "app.workspace", "RyeError": "items.errors"}.get(name, "app.embedding")
    return getattr(import_module(f"ryeos.{module}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
