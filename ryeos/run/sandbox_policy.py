"""The policy of a user: what items may do at most, ``config/sandbox/policy.yaml`` of user space.

On a node its operator has one too, which the user's can only narrow. Page: ``docs/rights.md``.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lillux.values import dataclass, replace
from ryeos.items.context import SANDBOX_VARIABLE, Context
from ryeos.items.errors import SpecError, UsageError
from ryeos.items.refs import SYSTEM, USER, Kind
from ryeos.items.rights import ANYTHING, Rights, read_rights
from ryeos.trust.config import ConfigReader

if TYPE_CHECKING:
    from ryeos.run.allowance import AgentPolicy


POLICY_PATH, ACCESS_PATH = "sandbox/policy.yaml", "web/access.yaml"
AGENTS_WHERE = f"{POLICY_PATH}: agents"
_POLICY_KEYS = ("version", "category", "description", "level", "limits", "rules", "agents")
_RULE_KEYS = ("items", "limits")


class Level(StrEnum):
    """The treatment of an item that declares no rights; each is stricter than the one before."""

    OFF = "off"
    DECLARED = "declared"
    PROJECT = "project"
    STRICT = "strict"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPolicy:
    """The most that the user lets items do: ``config/sandbox/policy.yaml`` of user space.

    rules    patterns of items, and limits for what fits
    private  names and networks of the local network that hosts may lead to
    bound    on a node what its operator lets them do: more than that no user can allow
    agents   what agents may write beside their project; None where it does not say
    """

    level: Level = Level.DECLARED
    limits: Rights = ANYTHING
    rules: tuple[tuple[str, Rights], ...] = ()
    private: tuple[str, ...] = ()
    bound: "SandboxPolicy | None" = None
    agents: "AgentPolicy | None" = None

    def all_limits_for(self, item_id: str) -> tuple[Rights, ...]:
        """The limits of an item, each of which only narrows: the user's, and the operator's."""
        own = (self._limits_for(item_id),)
        return own if self.bound is None else (*own, *self.bound.all_limits_for(item_id))

    def _limits_for(self, item_id: str) -> Rights:
        if not self.rules:
            return self.limits
        from ryeos.trust.sign_targets import glob_matcher

        limits = self.limits
        for pattern, more in self.rules:
            if glob_matcher(pattern)(item_id):
                limits = limits.narrowed(more)
        return limits


def policy_from(said: Mapping[str, Any]) -> SandboxPolicy:
    """The policy that a file says. Raises SpecError."""
    _require_keys(said, _POLICY_KEYS, POLICY_PATH)
    level = _level(said.get("level", Level.DECLARED.value), f"{POLICY_PATH}: level")
    limits = _limits(said.get("limits"), f"{POLICY_PATH}: limits")
    rules = said.get("rules") or []
    if not isinstance(rules, list):
        raise SpecError(f"{POLICY_PATH}: rules", "expected a list")
    read = []
    for index, rule in enumerate(rules):
        where = f"{POLICY_PATH}: rules[{index}]"
        if not isinstance(rule, Mapping) or not isinstance(rule.get("items"), str):
            raise SpecError(where, "expected items, a pattern like rye/web/**, and limits")
        _require_keys(rule, _RULE_KEYS, where)
        pattern = rule["items"].removeprefix(f"{Kind.TOOL}:")
        read.append((pattern, _limits(rule.get("limits"), f"{where}.limits")))
    agents = None
    if said.get("agents") is not None:
        from ryeos.run.allowance import agent_policy

        agents = agent_policy(said["agents"], AGENTS_WHERE)
    return SandboxPolicy(level=level, limits=limits, rules=tuple(read), agents=agents)


def policy_of(config: ConfigReader, context: Context) -> SandboxPolicy:
    """The policy of user space under the word of a person. Raises SpecError, UsageError.

    A word in the environment of an agent's server may stand in a file that came with a project: it
    makes the level stricter, never less strict.
    """
    layers = config.layers(POLICY_PATH, tiers=(USER,))
    policy = policy_from(layers[0].values) if layers else SandboxPolicy()
    if context.on_node:
        return _narrowed_by_operator(policy, context)
    access = [one.values for one in config.layers(ACCESS_PATH, tiers=(USER, SYSTEM))]
    private = [one for layer in access for one in layer.get("allow_private") or ()]
    policy = replace(policy, private=tuple(one for one in private if isinstance(one, str)))
    if not context.sandbox:
        return policy
    word = _level(context.sandbox, SANDBOX_VARIABLE)
    if context.confines and _strictness(word) < _strictness(policy.level):
        return policy
    return replace(policy, level=word)


def operator_policy_from(said: Mapping[str, Any], where: str) -> SandboxPolicy:
    """The most that the operator of a node lets the tools of its users do.

    ``allow_private`` of it are the private networks that declared hosts may lead to. Raises
    SpecError, UsageError; also for the level ``off``, under which tools would reach the node.
    """
    private = said.get("allow_private") or []
    if not isinstance(private, list) or not all(isinstance(one, str) for one in private):
        raise SpecError(f"{where}: allow_private", "expected a list of names and networks")
    policy = policy_from({key: said[key] for key in said if key != "allow_private"})
    if policy.level is Level.OFF:
        problem = "off leaves a node open to its tools"
        raise SpecError(f"{where}: level", problem, hint="expected declared, project or strict")
    return replace(policy, private=tuple(private))


def _narrowed_by_operator(policy: SandboxPolicy, context: Context) -> SandboxPolicy:
    """The part of a pushed policy that counts: where it is stricter than the node's rules.

    Which private networks there are is nothing that a user of the node could know.
    """
    operator = operator_policy_from(context.node_policy, "the node's sandbox")
    level = max(policy.level, operator.level, key=_strictness)
    return replace(policy, level=level, private=operator.private, bound=operator)


def _strictness(level: Level) -> int:
    return list(Level).index(level)


def _level(word: object, where: str) -> Level:
    # YAML reads a bare off as false.
    word = Level.OFF.value if word is False else word
    try:
        return Level(str(word))
    except ValueError:
        known = ", ".join(Level)
        raise UsageError(
            f"{where}: expected one of {known}, found {word!r:.40}",
            hint="the page is docs/rights.md",
        ) from None


def _limits(value: object, where: str) -> Rights:
    return ANYTHING if value is None else read_rights(value, where, absent=ANYTHING)


def _require_keys(given: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in given:
        if key not in known:
            from ryeos.items.unknown_keys import closest

            close = closest(str(key), tuple(known), 0.5)
            meant = f"; did you mean {close}?" if close else ""
            raise SpecError(where, f"{key!s:.60} is no key of it{meant}")
