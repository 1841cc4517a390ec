"""Asks a person before an agent signs, or runs what the policy asks about.

(1) what is wrong with an item is answered at once: no person is asked about what cannot be signed
(2) a client that can ask its user is asked, with kind, id, digest, signer and what changed
(3) any other gets ``approval_required``, and the proposal waits for ``rye approve``
(4) what is signed are the bytes that the person saw: their digests are part of the sealed state
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lillux.digests import sha256_hex
from lillux.signing import KeyLockedError
from lillux.values import dataclass
from ryeos.app.policy import AgentPolicy, Decision, SignMode
from ryeos.app.proposals import Proposals, described, digests, require_no_rights
from ryeos.app.sign import (
    batch_answer,
    checked,
    follow,
    is_glob,
    is_signed,
    of_files,
    sign_targets,
    signing,
    single_answer,
)
from ryeos.app.verbs import project_of
from ryeos.app.workspace import Rye
from ryeos.items.errors import RyeError, error_envelope
from ryeos.items.refs import ItemRef
from ryeos.mcp.listing import PROPOSAL, SCHEME
from ryeos.mcp.questions import (
    Question,
    States,
    has_responses,
    input_required,
    response_of,
)
from ryeos.mcp.revisions import McpCall
from ryeos.trust.sign import SignReport, SignTarget, read_item

APPROVE = "approve"
MAX_MESSAGE_CHARACTERS = 6000
_CUT = "... this is not all of it: read the files before you say yes"


@dataclass(frozen=True, slots=True)
class ClientQuestions:
    """The questions to the user of one client, and what its user lets it do.

    ``session`` keeps what the user said once for as long as this server lives.
    """

    call: McpCall
    states: States
    policy: AgentPolicy
    session: dict[str, bool]

    @property
    def can_ask(self) -> bool:
        """Whether this client can show a form to its user, in any revision of the protocol."""
        if not self.call.caller.can("elicitation"):
            return False
        modes = self.call.caller.capabilities["elicitation"]
        return not modes or isinstance(modes.get("form"), dict)

    def answered(self, key: str) -> bool | None:
        """What the user said to the question of this key; None where it was not asked yet."""
        if not has_responses(self.call):
            return None
        content = response_of(self.states, self.call, key)
        return content is not None and content.get(APPROVE) is True

    def question(self, key: str, message: str, wish: str) -> dict[str, Any]:
        """The result that puts the question."""
        rules = {"type": "boolean", "description": wish, "default": False}
        if len(message) > MAX_MESSAGE_CHARACTERS:
            message = f"{message[:MAX_MESSAGE_CHARACTERS]}\n{_CUT}"
        question = Question(message, {APPROVE: rules})
        return input_required(self.states, self.call, key, question)


def sign_for_agent(
    rye: Rye, arguments: Mapping[str, object], questions: ClientQuestions
) -> dict[str, Any] | Mapping[str, Any]:
    """The envelope of a ``sign`` over MCP, or the result that asks the user."""
    here, targets, values = sign_targets(rye, arguments)
    require_no_rights(targets)
    reports = [checked(here, target) for target in targets]  # (1)
    todo = [
        one.target
        for one in reports
        if not one.error and (values["force"] or not is_signed(here, one.target))
    ]
    if values["dry_run"] or not todo:
        return _plain(here, targets, values)
    if questions.policy.sign is SignMode.NEVER:
        raise RyeError(
            "this server signs nothing: its user wants that",
            code="APPROVAL_REQUIRED",
            hint="your user signs it, after reading it, with: rye sign",
        )
    found = digests(todo)
    key = f"sign:{sha256_hex(repr(sorted(found.items())).encode())[:32]}"
    if not _can_sign(here):
        return _waiting(here, todo, questions, declined=False)
    if questions.policy.sign is SignMode.ASK:
        said = questions.answered(key) if questions.can_ask else False  # (2)
        if said is None:
            text = "\n".join(described(here.context.spaces.user, todo, found))
            signer = here.signing_key().fingerprint
            message = f"An agent wants you to sign, with {signer}:\n{text}"
            return questions.question(key, message, "sign this; it runs from then on")
        if not said:
            return _waiting(here, todo, questions, declined=questions.can_ask)  # (3)
    signed = list(signing(here, targets, dry_run=False, force=values["force"], expected=found))
    follow(here, signed)
    return _envelope(here, signed, values)


def _plain(rye: Rye, targets: Sequence[SignTarget], values: Mapping[str, Any]) -> dict[str, Any]:
    """The answer where nothing is to be signed: a check, errors, or items that are signed."""
    is_dry = values["dry_run"]
    reports = [checked(rye, target) for target in targets]
    if not is_dry:
        reports = [
            one if one.error else SignReport(target=one.target, signature=found, unchanged=True)
            for one in reports
            for found in (None if one.error else is_signed(rye, one.target),)
        ]
    return _envelope(rye, reports, values)


def _envelope(rye: Rye, reports: Sequence[SignReport], values: Mapping[str, Any]) -> dict[str, Any]:
    if is_glob(values["item_id"]):
        answer = batch_answer(reports, len(reports), dry_run=values["dry_run"])
    else:
        answer = single_answer(reports[0])
    return {
        **answer.envelope,
        "project_path": project_of(rye),
        **of_files(values, reports[0]),
    }


def _waiting(
    rye: Rye, targets: Sequence[SignTarget], questions: ClientQuestions, *, declined: bool
) -> dict[str, Any]:
    """The answer to an agent about items that were not signed; without an answer they wait."""
    if declined:
        return {
            "status": "declined",
            "items": [target.label for target in targets],
            "message": "your user did not approve it; nothing was signed",
        }
    waiting = Proposals(rye.context.spaces.user)
    client = questions.call.caller.client
    made = [
        waiting.add(one, read_item(one), project=project_of(rye) or "", client=client)
        for one in targets
    ]
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
        "hint": "tell your user to run: rye approve; subscribe to a proposal's uri to hear of it",
    }


def _can_sign(rye: Rye) -> bool:
    """Whether this process has the key: not one under a passphrase, nor of a silent ssh-agent."""
    try:
        return rye.signing_key().is_confirmed
    except KeyLockedError:
        return False


def may_execute(
    ref: ItemRef, arguments: Mapping[str, object], questions: ClientQuestions
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
        message = f"{client or 'An agent'} wants to run {ref} with:\n{arguments.get('parameters')}"
        return questions.question(key, message, "run it, this once")
    return _not_approved(ref)


def _may_use_shell(
    ref: ItemRef, arguments: Mapping[str, object], questions: ClientQuestions
) -> dict[str, Any] | None:
    """As `may_execute`, for an item that runs what the agent writes: one question a session.

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
            message = (
                f"{client or 'An agent'} wants to run commands that it writes itself, with {ref}.\n"
                "They can write this project (not its .ai folder) and a folder for temporary "
                "files, read what you can read except your keys, and use the network.\n"
                f"The first is:\n{arguments.get('parameters')}"
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
