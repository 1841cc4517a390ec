"""The policy for agents: ``config/agents/policy.yaml`` of user space (``docs/clients.md``).

Only user space is read: a project that came from somewhere gives no rights. The file::

    version: "1.0.0"
    category: agents
    sign: ask                    # ask, never or allow
    shells: session              # session, allow, ask or deny
    rules:
      - {client: "*", items: "tool:rye/web/**", decision: deny}
      - {client: claude-code, items: "tool:shop/**", decision: allow}
    tools: [tool:shop/total]     # listed as MCP tools of their own
    projects: [~/shops/*]         # which an agent may name beside that of its server

The first rule that fits decides; without one an item may be executed. For the items that run what
their caller writes (`RUN_COMMANDS`), ``shells`` is the last rule: ``session`` asks once for each
client and session where the client can ask its user. The command line (``--allow``, ``--ask``,
``--deny``) can only make that stricter. What is denied is neither found nor read.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from lillux.values import dataclass
from ryeos.items.errors import RyeError, UsageError
from ryeos.items.refs import RUN_COMMANDS, USER, ItemRef, Kind
from ryeos.trust.config import ConfigReader
from ryeos.trust.sign_targets import glob_matcher

POLICY_PATH = "agents/policy.yaml"
_KEYS = {"version", "category", "description", "sign", "shells", "rules", "tools", "projects"}
_RULE_KEYS = {"client", "items", "decision"}


def may_name_shell(text: object) -> bool:
    """True if an id, as a caller writes it, can be one of `RUN_COMMANDS`: resolving costs more."""
    return isinstance(text, str) and any(name in text for name in _SHELL_NAMES)


_SHELL_NAMES = tuple(name.rpartition("/")[2] for name in sorted(RUN_COMMANDS))


class SignMode(StrEnum):
    """The rule for an agent's call of ``sign``."""

    ASK = "ask"
    NEVER = "never"
    ALLOW = "allow"


class Decision(StrEnum):
    """The decision on a client's request for an item."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class ShellMode(StrEnum):
    """The rule for an agent's call of a shell, where no other is about that."""

    SESSION = "session"
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


_Word = TypeVar("_Word", SignMode, Decision, ShellMode)


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Items, by pattern, and what a client of this name (a pattern too) may do with them."""

    client: str
    items: str
    decision: Decision

    def fits(self, client: str, ref: ItemRef) -> bool:
        """True if it is about this item and this client."""
        kind, colon, pattern = self.items.partition(":")
        if not colon:
            kind, pattern = "*", self.items
        is_kind = kind in ("*", ref.kind.value)
        is_client = fnmatchcase(client.casefold(), self.client.casefold())
        return is_kind and is_client and glob_matcher(pattern.lstrip("/"))(ref.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPolicy:
    """The rules for the client of one server: those of the user, and of its command line."""

    sign: SignMode = SignMode.ASK
    shells: ShellMode = ShellMode.SESSION
    rules: tuple[PolicyRule, ...] = ()
    flags: tuple[PolicyRule, ...] = ()
    tools: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()

    def decision(self, client: str, ref: ItemRef) -> Decision:
        """The decision on an item: the stricter of what the user and the flags say.

        A command line may stand in a file that came with a project: it takes nothing back.
        """
        said = (_first(rules, client, ref) for rules in (self.rules, self.flags))
        found = [one for one in said if one]
        if not self._has_rule(client, ref) and ref.id in RUN_COMMANDS:
            found.append(_OF_SHELLS[self.shells])
        return max(found, key=list(Decision).index, default=Decision.ALLOW)

    def asks_once(self, client: str, ref: ItemRef) -> bool:
        """True if a client's user is asked about an item once for the whole session."""
        is_shell = ref.kind is Kind.TOOL and ref.id in RUN_COMMANDS
        return is_shell and self.shells is ShellMode.SESSION and not self._has_rule(client, ref)

    def _has_rule(self, client: str, ref: ItemRef) -> bool:
        """True if the user wrote a rule for it; a flag of the command line takes nothing back."""
        return _first(self.rules, client, ref) is not None

    def may_say(self, decision: Decision) -> bool:
        """True if any rule says so, of whatever items and clients."""
        of_shells = _OF_SHELLS[self.shells] is decision
        return of_shells or any(rule.decision is decision for rule in (*self.rules, *self.flags))

    def require_visible(self, client: str, ref: ItemRef) -> None:
        """Raise a RyeError for an item that is denied."""
        if self.decision(client, ref) is Decision.DENY:
            raise RyeError(
                f"{ref}: denied to {client or 'this client'} by its user's policy",
                code="PERMISSION_DENIED",
                hint="use another item; only your user changes that",
            )


def policy_of(
    config: ConfigReader,
    *,
    sign: str = "",
    rules: Sequence[tuple[str, str]] = (),
) -> AgentPolicy:
    """The policy of the user, under what the command line says: pairs of a decision and a pattern.

    ``--sign allow`` counts only where user space says so as well: the command line of a server may
    stand in a file that came with a project. Raises UsageError, RyeError for a broken file.
    """
    layers = [layer.values for layer in config.layers(POLICY_PATH, tiers=(USER,))]
    return policy_from(layers[0] if layers else {}, sign=sign, rules=rules)


def policy_from(
    said: Mapping[str, Any], *, sign: str = "", rules: Sequence[tuple[str, str]] = ()
) -> AgentPolicy:
    """The policy of a file that says this. Raises as `policy_of`."""
    _require_keys(said, _KEYS, POLICY_PATH)
    in_file = _word(SignMode, said.get("sign", SignMode.ASK.value), "sign")
    wanted = SignMode(sign) if sign else in_file
    if wanted is SignMode.ALLOW and in_file is not SignMode.ALLOW:
        raise UsageError(
            "--sign allow: expected it in your user space too, found it on the command line alone",
            hint=f"if agents may sign without you: write sign: allow into .ai/config/{POLICY_PATH}"
            " of your home",
        )
    flags = tuple(PolicyRule("*", pattern, Decision(word)) for word, pattern in rules)
    given = said.get("rules") or []
    if not isinstance(given, list):
        raise _error("rules", "expected a list")
    tools = said.get("tools") or []
    if not isinstance(tools, list) or not all(isinstance(one, str) for one in tools):
        raise _error("tools", "expected a list of items like tool:shop/total")
    # So that `--deny '**' --allow 'tool:shop/**'` leaves these.
    in_order = sorted(flags, key=lambda rule: list(Decision).index(rule.decision))
    return AgentPolicy(
        sign=wanted,
        shells=_word(ShellMode, said.get("shells", ShellMode.SESSION.value), "shells"),
        rules=tuple(map(_rule, range(len(given)), given)),
        flags=tuple(in_order),
        tools=tuple(tools),
        projects=_projects(said.get("projects") or []),
    )


_OF_SHELLS = {
    ShellMode.SESSION: Decision.ALLOW,
    ShellMode.ALLOW: Decision.ALLOW,
    ShellMode.ASK: Decision.ASK,
    ShellMode.DENY: Decision.DENY,
}


def _projects(given: object) -> tuple[str, ...]:
    from ryeos.app.agent_projects import valid_pattern

    if not isinstance(given, list) or not all(map(valid_pattern, given)):
        raise _error("projects", "expected a list of folders like /srv/shop, ~/shop or ~/shops/*")
    return tuple(given)


def _first(rules: Sequence[PolicyRule], client: str, ref: ItemRef) -> Decision | None:
    return next((rule.decision for rule in rules if rule.fits(client, ref)), None)


def _rule(number: int, given: object) -> PolicyRule:
    where = f"rules[{number}]"
    if not isinstance(given, Mapping):
        raise _error(where, "expected a mapping with client, items and decision")
    _require_keys(given, _RULE_KEYS, where)
    items, client = given.get("items"), given.get("client", "*")
    if not isinstance(items, str) or not items or not isinstance(client, str):
        raise _error(where, "expected items, a pattern like tool:shop/**, and a client's name")
    return PolicyRule(client, items, _word(Decision, given.get("decision"), f"{where}.decision"))


def _word(words: type[_Word], given: object, where: str) -> _Word:
    try:
        return words(str(given))
    except ValueError:
        known = ", ".join(word.value for word in words)
        raise _error(where, f"expected one of {known}, found {given!r:.60}") from None


def _require_keys(given: Mapping[str, Any], known: set[str], where: str) -> None:
    for name in given:
        if name not in known:
            from difflib import get_close_matches

            close = get_close_matches(str(name), sorted(known), 1, 0.5)
            meant = f"; did you mean {close[0]}?" if close else ""
            raise _error(where, f"{name!s:.60} is no key of it{meant}")


def _error(where: str, problem: str) -> RyeError:
    return RyeError(
        f"agents/policy.yaml: {where}: {problem}",
        code="CONFIG_ERROR",
        hint="the page is docs/clients.md",
    )
