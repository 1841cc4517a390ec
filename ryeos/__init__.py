"""Rye: find, verify and run signed ``.ai/`` items."""

__version__ = "0.1.0"

TYPE_CHECKING = False  # importing `typing` costs more than `rye version` may take
if TYPE_CHECKING:
    from lillux.env_resolver import EnvResolver
    from lillux.schema import SchemaValidator
    from ryeos.app import aio
    from ryeos.app.embedding import (
        CacheEntry,
        DirectiveResolver,
        ItemSignature,
        KnowledgeResolver,
        MetadataManager,
        PrimitiveExecutor,
        ToolResolver,
        collect_object_hashes,
        export_objects,
        get_objects,
        has_objects,
        import_objects,
        open_workspace,
        put_objects,
        resolve_remote,
    )
    from ryeos.app.workspace import Rye
    from ryeos.items.errors import RyeError
    from ryeos.remote.settings import RemoteConfig
    from ryeos.run.chain_validator import ChainValidator
    from ryeos.run.http import HttpClientPrimitive
    from ryeos.run.lockfiles import LockfileResolver
    from ryeos.run.model import ChainElement, ExecutionResult
    from ryeos.run.primitives import ExecutePrimitive, SubprocessPrimitive
    from ryeos.sync.checkout import ExecutionPaths, cleanup, materialize

__all__ = [
    "CacheEntry",
    "ChainElement",
    "ChainValidator",
    "DirectiveResolver",
    "EnvResolver",
    "ExecutePrimitive",
    "ExecutionPaths",
    "ExecutionResult",
    "HttpClientPrimitive",
    "ItemSignature",
    "KnowledgeResolver",
    "LockfileResolver",
    "MetadataManager",
    "PrimitiveExecutor",
    "RemoteConfig",
    "Rye",
    "RyeError",
    "SchemaValidator",
    "SubprocessPrimitive",
    "ToolResolver",
    "aio",
    "cleanup",
    "collect_object_hashes",
    "export_objects",
    "get_objects",
    "has_objects",
    "import_objects",
    "materialize",
    "open_workspace",
    "put_objects",
    "resolve_remote",
]

_ELSEWHERE = {
    "ChainElement": "ryeos.run.model",
    "ChainValidator": "ryeos.run.chain_validator",
    "EnvResolver": "lillux.env_resolver",
    "ExecutePrimitive": "ryeos.run.primitives",
    "ExecutionPaths": "ryeos.sync.checkout",
    "ExecutionResult": "ryeos.run.model",
    "HttpClientPrimitive": "ryeos.run.http",
    "LockfileResolver": "ryeos.run.lockfiles",
    "RemoteConfig": "ryeos.remote.settings",
    "Rye": "ryeos.app.workspace",
    "RyeError": "ryeos.items.errors",
    "SchemaValidator": "lillux.schema",
    "SubprocessPrimitive": "ryeos.run.primitives",
    "cleanup": "ryeos.sync.checkout",
    "materialize": "ryeos.sync.checkout",
}
"""Modules of the names that `ryeos.app.embedding` does not have."""


def __getattr__(name: str) -> object:
    """What ``import ryeos`` gives, from its module when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'ryeos' has no attribute {name!r}")
    from importlib import import_module

    if name == "aio":
        return import_module("ryeos.app.aio")
    return getattr(import_module(_ELSEWHERE.get(name, "ryeos.app.embedding")), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
