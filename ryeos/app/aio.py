"""Rye for asyncio: the same calls in worker threads, ended when their task is cancelled.

``from ryeos import aio``. A file of its own because only those who ask for it pay for `asyncio`.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeVar

from lillux.cancellation import Cancellation
from ryeos.app.embedding import PrimitiveExecutor, open_workspace
from ryeos.app.workspace import Rye
from ryeos.run.model import ExecutionResult

_Result = TypeVar("_Result")


class AsyncWorkspace:
    """A workspace whose calls are awaited. Use it in ``async with``, or `close` it."""

    def __init__(self, workspace: Rye) -> None:
        self.workspace = workspace

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End warm workers."""
        await asyncio.to_thread(self.workspace.close)

    async def execute(
        self, item: str, parameters: Mapping[str, Any] | None = None, *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Run a tool, render a directive, read knowledge; the envelope, also of a failure.

        When the task is cancelled the program is ended, with all that it started, before this
        returns. Raises InvalidRefError, ItemNotFoundError.
        """
        cancellation = Cancellation()
        return await _in_thread(
            lambda: self.workspace.execute(
                item, parameters, cancellation=cancellation, dry_run=dry_run
            ),
            cancellation,
        )

    async def run_thread(
        self,
        directive: str,
        inputs: Mapping[str, Any] | None = None,
        *,
        model: str = "",
        limits: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Call the method of the workspace; the thread is cancelled when the task is."""
        cancellation = Cancellation()
        return await _in_thread(
            lambda: self.workspace.run_thread(
                directive, inputs, model=model, limits=limits, cancellation=cancellation
            ),
            cancellation,
        )


class AsyncExecutor:
    """`ryeos.PrimitiveExecutor`, awaited."""

    def __init__(self, workspace: Rye | AsyncWorkspace) -> None:
        if isinstance(workspace, AsyncWorkspace):
            workspace = workspace.workspace
        self._executor = PrimitiveExecutor(workspace)

    async def execute(
        self,
        item_id: str,
        parameters: Mapping[str, Any] | None = None,
        *,
        validate_chain: bool = True,
        use_lockfile: bool = True,
        trace: bool = False,
    ) -> ExecutionResult:
        """Call the method of the same name; cancelled as `AsyncWorkspace.execute` is."""
        cancellation = Cancellation()
        return await _in_thread(
            lambda: self._executor.execute(
                item_id,
                parameters,
                validate_chain=validate_chain,
                use_lockfile=use_lockfile,
                trace=trace,
                cancellation=cancellation,
            ),
            cancellation,
        )


async def open_async(path: str | os.PathLike[str] | None = None, **options: Any) -> AsyncWorkspace:  # noqa: ANN401
    """Open as `ryeos.open_workspace`, without blocking the loop while files are read."""
    return AsyncWorkspace(await asyncio.to_thread(lambda: open_workspace(path, **options)))


async def _in_thread(work: Callable[[], _Result], cancellation: Cancellation) -> _Result:
    running = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        cancellation.cancel()
        await asyncio.wait([running])
        if running.done() and not running.cancelled():
            running.exception()  # else asyncio warns that the exception was never retrieved
        raise
