"""A workspace whose directives are carried out by a provider of the test."""

from collections.abc import Mapping
from typing import Any

from ryeos.app.agent_threads import AgentThreads
from ryeos.app.thread_log import Following
from ryeos.app.thread_workspace import ThreadWish
from ryeos.items.errors import Answer
from ryeos.items.refs import Kind, Reference
from tests.support.workspace import Workspace

SMALL = "{free: true, context: 8000, max_output: 1000, features: [tools]}"
ECHO = """
    CONFIG_SCHEMA = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    SANDBOX = {"read": [], "write": [], "network": "none", "programs": "none"}


    def execute(params, project_path):
        return {"said": params["text"]}
"""


def provider(
    workspace: Workspace,
    url: str,
    *,
    name: str = "local",
    model: str = SMALL,
    extra: str = "",
    dialect: str = "openai-chat",
) -> None:
    """Write a provider of user space that asks this address, and sign it."""
    text = (
        f'version: "1.0.0"\ncategory: agent/providers\ndialect: {dialect}\nbase_url: {url}\n'
        f"models:\n  small: {model}\n{extra}"
    )
    workspace.user.signed(f"config/agent/providers/{name}.yaml", text)


def echo(
    workspace: Workspace, item_id: str = "ops/echo", extra: str = "", body: str = ECHO
) -> None:
    """Write a tool that says what it is given, and sign it."""
    workspace.project.signed_tool(
        item_id, executor="rye/core/runtimes/python/function", extra=extra, body=body
    )


def directive(
    workspace: Workspace,
    item_id: str = "ops/say",
    *,
    permissions: str = "<execute><tool>ops.*</tool></execute>",
    limits: str = "",
    outputs: str = "",
    model: str = '<model provider="local" id="small"/>',
    body: str = "Say {input:what?} with the tool echo.",
) -> None:
    """Write a directive for that provider, and sign it."""
    category, _, name = item_id.rpartition("/")
    workspace.project.signed(
        f"directives/{item_id}.md",
        f'# {name}\n\n```xml\n<directive name="{name}" version="1.0.0">\n<metadata>\n'
        f"<description>test</description>\n<category>{category}</category>\n"
        f"<author>tester</author>\n{model}\n{limits}\n"
        f"<permissions>{permissions}</permissions>\n</metadata>\n"
        '<inputs><input name="what" type="string">What</input></inputs>\n'
        f"{outputs}\n</directive>\n```\n\n{body}\n",
    )


def threads(workspace: Workspace) -> AgentThreads:
    """The threads of a fresh process."""
    return AgentThreads(workspace.rye())


def carried_out(
    workspace: Workspace,
    item_id: str = "ops/say",
    *,
    following: Following | None = None,
    limits: Mapping[str, int] | None = None,
    **parameters: Any,  # noqa: ANN401 - inputs
) -> Answer:
    """The answer of a directive that was carried out."""
    wish = ThreadWish(parameters=parameters, limits=limits or {})
    return threads(workspace).start(Reference(Kind.DIRECTIVE, item_id), wish, following)
