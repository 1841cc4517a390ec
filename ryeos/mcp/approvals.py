"""Asks a person before an agent signs, or runs what the policy asks about.

(1) what is wrong with an item is answered at once: no person is asked about what cannot be signed
(2) a client that can ask its user is asked, with all that ``rye approve`` shows
(3) any other gets ``approval_required``, and the proposal waits for ``rye approve``; so does a text
    that is too long for a form: no question is about what is not shown
(4) each file is read once for an answer: these bytes have the digest that is part of the sealed
    question, and are what is signed
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.key_files import KeyLockedError
from lillux.values import dataclass
from ryeos.app.policy import AgentPolicy, Decision, SignMode
from ryeos.app.proposals import Proposals, require_no_rights
from ryeos.app.review import review_of
from ryeos.app.shown_text import shown_words
from ryeos.app.sign import (
    PutText,
    batch_answer,
    checked,
    follow,
    graph_warnings,
    is_glob,
    is_signed,
    of_text,
    put_text,
    read_all,
    sign_targets,
    signing,
    single_answer,
)
from ryeos.app.verb_arguments import project_of
from ryeos.app.verbs import ToolArguments
from ryeos.app.workspace import Rye
from ryeos.items.errors import ItemValidationError, RyeError, error_envelope
from ryeos.items.refs import REQUESTER, ItemRef
from ryeos.mcp.questions import Question, States, has_responses, input_required, response_of
from ryeos.mcp.revisions import McpCall
from ryeos.mcp.uris import PROPOSAL, SCHEME
from ryeos.mcp.waiting import ASK_USER, ITS_USER_DECIDES, ProposedTexts
from ryeos.trust.item_rules import is_module, lacks_executor, validate_item, warnings_of
from ryeos.trust.sign import SignReport
from ryeos.trust.sign_targets import ReadItem, SignTarget

APPROVE = "approve"
MAX_MESSAGE_CHARACTERS = 20_000
"""Of a question: a longer one is not put, and the proposal waits."""


@dataclass(frozen=True, slots=True)
class ClientQuestions:
    """The questions to the user of one client, and what its user lets it do.

    ``session`` keeps what the user said once for as long as this server lives.
    """

    call: McpCall
    states: States
    policy: AgentPolicy
    session: dict[str, bool]
    proposed: ProposedTexts

    @property
    def can_ask(self) -> bool:
        """True if this client can show a form to its user, in any revision of the protocol."""
        if not self.call.caller.can("elicitation"):
            return False
        modes = self.call.caller.capabilities["elicitation"]
        return not modes or isinstance(modes.get("form"), dict)

    def answered(self, key: str) -> bool | None:
        """The user's answer to the question of this key; None where it was not asked yet."""
        if not has_responses(self.call):
            return None
        content = response_of(self.states, self.call, key)
        return content is not None and content.get(APPROVE) is True

    def question(self, key: str, message: str, wish: str) -> dict[str, Any]:
        """The result that puts the question."""
        rules = {"type": "boolean", "description": wish, "default": False}
        question = Question(message, {APPROVE: rules})
        return input_required(self.states, self.call, key, question)


def sign_for_agent(
    rye: Rye, arguments: ToolArguments, questions: ClientQuestions
) -> dict[str, Any] | Mapping[str, Any]:
    """The envelope of a ``sign`` over MCP, or the result that asks the user."""
    here, targets, values = sign_targets(rye, arguments)
    require_no_rights([one.target if isinstance(one, ReadItem) else one for one in targets])
    items = read_all(targets)
    todo = [
        item
        for item in items
        if isinstance(item, ReadItem)
        and not checked(here, item).error  # (1)
        and (values["force"] or not is_signed(here, item))
    ]
    if values["dry_run"] or not todo:
        return _plain(here, items, values)
    if arguments.get("try_parameters") is not None:
        _require_executors(todo)
    if questions.policy.sign is SignMode.NEVER:
        raise RyeError(
            "this server signs nothing: its user wants that",
            code="APPROVAL_REQUIRED",
            hint=f"ask your user to run: rye sign {todo[0].target.label}",
        )
    found = sorted((str(item.target.path), item.sha256) for item in todo)
    key = f"sign:{sha256_hex(repr(found).encode())[:32]}"
    if not _can_sign(here):
        return _waiting(here, todo, questions, values)
    if questions.policy.sign is SignMode.ASK:
        said = questions.answered(key) if questions.can_ask else False  # (2)
        if said is None:
            message = _question(here, todo)
            if len(message) > MAX_MESSAGE_CHARACTERS:
                return _waiting(here, todo, questions, values)  # (3)
            return questions.question(key, message, "sign this; it runs from then on")
        if not said:
            return _declined(todo) if questions.can_ask else _waiting(here, todo, questions, values)
    put = _put(here, items, values)
    signed = list(signing(here, items, dry_run=False, force=values["force"]))  # (4)
    follow(here, signed)
    return _envelope(here, signed, values, put)


def _put(
    rye: Rye, items: Sequence[SignTarget | ReadItem], values: Mapping[str, Any]
) -> PutText | None:
    """Write the text of a call with ``content``, now that it is to be signed, or to wait."""
    return put_text(items[0], rye.context.spaces.user) if "content" in values else None


def _require_executors(items: Sequence[ReadItem]) -> None:
    """Refuse a tool that is to be tried and that nothing runs, before a person is asked about it.

    Raises ItemValidationError.
    """
    for item in items:
        target = item.target
        header = validate_item(target, item.data).header
        is_script = target.verify_target.suffix == ".sh"  # bash runs it
        if lacks_executor(target, header) or (is_module(target, header) and not is_script):
            example = '__executor_id__ = "rye/core/runtimes/python/function"'
            problem = (
                f"expected executor_id, as it is to be tried, found none; add one, like {example}"
            )
            raise ItemValidationError(str(target.path), [problem])


def _question(rye: Rye, items: Sequence[ReadItem]) -> str:
    """All that a person has to see of these items."""
    lines = [line for item in items for line in review_of(rye, item).lines()]
    signer = rye.signing_key().fingerprint
    return "\n".join([f"An agent wants you to sign, with {signer}:", *lines])


def _plain(
    rye: Rye, items: Sequence[SignTarget | ReadItem], values: Mapping[str, Any]
) -> dict[str, Any]:
    """The answer where nothing is to be signed: a check, errors, or items that are signed."""
    is_dry = values["dry_run"]
    reports = [checked(rye, item) for item in items]
    if not is_dry:
        reports = [
            SignReport(target=one.target, signature=is_signed(rye, item), unchanged=True)
            if isinstance(item, ReadItem) and not one.error
            else one
            for one, item in zip(reports, items, strict=True)
        ]
    return _envelope(rye, reports, values)


def _envelope(
    rye: Rye,
    reports: Sequence[SignReport],
    values: Mapping[str, Any],
    put: PutText | None = None,
) -> dict[str, Any]:
    if is_glob(values["item_id"]):
        answer = batch_answer(reports, len(reports), dry_run=values["dry_run"])
    else:
        answer = single_answer(reports[0])
    return {
        **answer.envelope,
        "project_path": project_of(rye),
        **of_text(values, reports[0], put),
    }


def _declined(items: Sequence[ReadItem]) -> dict[str, Any]:
    """The answer about items that the user was asked about and did not approve."""
    return {
        "status": "declined",
        "items": [item.target.label for item in items],
        "message": "your user did not approve it; nothing was signed",
    }


def _waiting(
    rye: Rye,
    items: Sequence[ReadItem],
    questions: ClientQuestions,
    values: Mapping[str, Any],
) -> dict[str, Any]:
    """The answer to an agent about items that wait: the texts are in their files, unsigned."""
    waiting = Proposals(rye.context.spaces.user)
    client = questions.call.caller.client
    before = [waiting.of(one.target.path) for one in items]
    put = _put(rye, items, values)
    try:
        made = [waiting.add(one, project=project_of(rye) or "", client=client) for one in items]
    except LilluxError:  # too many wait
        if put:
            put.take_back()
        raise
    questions.proposed.note(items)
    replaced = [
        f"{new.label}: in place of a text that {old.client or 'another agent'} proposed at"
        f" {old.proposed_at} and that waited for approval"
        for old, new in zip(before, made, strict=True)
        if old and old.sha256 != new.sha256 and not questions.proposed.has(old)
    ]
    said = [one for item in items for one in (*warnings_of(item), *graph_warnings(item))]
    warnings = [*replaced, *said]
    tried = values.get("try_parameters")
    next_call = {"item_id": made[0].label, "parameters": tried}
    return {
        "status": "approval_required",
        "code": "APPROVAL_REQUIRED",
        "proposals": [
            {
                "id": one.id,
                "ref": one.label,
                "sha256": one.sha256,
                "uri": f"{SCHEME}{PROPOSAL}/{one.id}",
            }
            for one in made
        ],
        "message": "nothing was signed yet: a person has to approve it",
        "hint": f"it waits: {ITS_USER_DECIDES if tried is not None else ASK_USER}"
        "; subscribe to a proposal's uri to hear of it",
        **({"prior_text": str(put.kept)} if put and put.kept else {}),
        **({"warnings": warnings} if warnings else {}),
        **({"next": [{"name": "execute", "arguments": next_call}]} if tried is not None else {}),
    }


def _can_sign(rye: Rye) -> bool:
    """True if this process has the key: not one under a passphrase, nor of a silent ssh-agent."""
    try:
        return rye.signing_key().is_confirmed
    except KeyLockedError:
        return False


def may_execute(
    ref: ItemRef, arguments: ToolArguments, questions: ClientQuestions
) -> dict[str, Any] | None:
    """None where a run may begin; else the result that asks the user, or refuses."""
    client = questions.call.caller.client
    if questions.policy.decision(client, ref) is not Decision.ASK:
        return _may_use_shell(ref, arguments, questions)
    key = f"execute:{ref}"
    said = questions.answered(key) if questions.can_ask else False
    if said:
        return None
    if said is None:
        given = shown_words(str(arguments.given.get("parameters")))
        message = f"{shown_words(client) or 'An agent'} wants to run {ref} with:\n{given}"
        return questions.question(key, message, "run it, this once")
    return _not_approved(ref)


_MAY_RUN = (
    "run commands",
    (
        "They can write this project (not its .ai folder) and a folder for temporary files, read"
        " what you can read except your keys, and use the network."
    ),
)
_MAY_SEND = (
    "send requests",
    (
        "They can reach each host that this machine reaches, those of its own network too, and send"
        " it what the agent has read."
    ),
)


def _may_use_shell(
    ref: ItemRef, arguments: ToolArguments, questions: ClientQuestions
) -> dict[str, Any] | None:
    """Decide as `may_execute` for an item that runs what the agent writes: one question a session.

    A client that cannot ask its user runs it, confined as all that an agent starts.
    """
    client = questions.call.caller.client
    if not questions.policy.asks_once(client, ref) or not questions.can_ask:
        return None
    name = f"{client}\0{ref}"
    said = questions.session.get(name)
    if said is None:
        said = questions.answered(f"session:{ref}")
        if said is None:
            what, may = _MAY_SEND if ref.id == REQUESTER else _MAY_RUN
            given = shown_words(str(arguments.given.get("parameters")))
            message = (
                f"{shown_words(client) or 'An agent'} wants to {what} that it writes itself, "
                f"with {ref}.\n{may}\nThe first is:\n{given}"
            )
            return questions.question(f"session:{ref}", message, "allow it for this session")
        questions.session[name] = said
    return None if said else _not_approved(ref, "for this session")


def _not_approved(ref: ItemRef, how: str = "") -> dict[str, Any]:
    return {
        **error_envelope(
            RyeError(
                f"{ref}: not approved by your user{f' {how}' if how else ''}",
                code="APPROVAL_REQUIRED",
                hint="your user approves each call of it where the client can ask, or runs it",
            )
        ),
        "ref": str(ref),
    }
