"""The call of a task: its runner, once the files that it reads are as they were signed.

``config.protocol: task`` of a runtime asks for it. The runner is started without a shell, in the
folder that holds ``.ai``; what the tool says is in `ryeos.items.task_items`. A file of its own: no
other call needs it, and primitives import it late.
"""

from lillux.values import replace
from ryeos.items.errors import SpecError
from ryeos.items.task_items import LIMITS, TaskItem
from ryeos.run.calls import Materials, Services
from ryeos.run.command import build_invocation
from ryeos.run.process_call import ProcessCall


def task_call(materials: Materials, services: Services) -> ProcessCall:
    """The call for these materials.

    (1) the tool's own config, as it was signed   (2) the files   (3) words of the parameters

    Raises SpecError, ProgramNotFoundError, RyeError `EXECUTION_FAILED`.
    """
    tool = materials.chain.tool
    if tool.item is None:
        raise SpecError("executor_id", "expected a tool of a file for a task")
    task = TaskItem.from_config(tool.spec.config)  # (1)
    base = tool.item.target.space.base
    task.require_unchanged(base)  # (2)
    program, *first = task.command
    words = task.words(materials.values.tool)  # (3)
    kept = {key: materials.config[key] for key in LIMITS if key in materials.config}
    own = {"command": program, "args": [], "input_data": "", "cwd": str(base)}
    made = build_invocation(replace(materials, config={**kept, **own}))
    invocation = replace(
        made,
        argv=(made.argv[0], *first, *words),
        cwd=base,
        on_stdout=materials.request.on_stdout,
    )
    return ProcessCall(invocation, services.runner, materials.rights)
