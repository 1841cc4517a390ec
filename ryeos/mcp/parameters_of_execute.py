"""What `execute` takes, as rows."""

from ryeos.mcp.parameters import PROJECT_PATH, RUNNABLE, Parameter

EXECUTE = (
    Parameter(name="item_id", type="string", description="tool:a/b, or a/b"),
    Parameter(name="item_type", type="string", description="Kind of item", enum=RUNNABLE),
    Parameter(name="action", type="string", description="Or sign, load", default="run"),
    PROJECT_PATH,
    Parameter(name="parameters", type="object", description="The item's inputs"),
    Parameter(name="dry_run", type="boolean", description="Check only", default=False),
    Parameter(name="target", type="string", description="local, or remote:NAME", default="local"),
    Parameter(name="thread", type="string", description="inline or fork", default="inline"),
    Parameter(name="async", type="boolean", description="Give a handle, run on", default=False),
    Parameter(name="resume_thread_id", type="string", description="Go on with a graph's run"),
    Parameter(name="model", type="string", description="For a fork"),
    Parameter(name="limit_overrides", type="object", description="For a fork"),
    Parameter(
        name="timeout", type="integer", description="Seconds, at most the tool's own", minimum=1
    ),
    Parameter(name="trace", type="boolean", description="Add what happened", default=False),
)
