"""The usage that a provider reports, as `Usage`: each token counted once. Pure.

Providers differ in two ways: where a figure stands, and whether the input includes what was read
from a cache. Both are data (the key ``usage`` of a provider, docs/agents.md), so that no cached
token is paid twice.
"""

from collections.abc import Mapping
from typing import Any

from lillux.fields import Fields
from lillux.values import dataclass
from ryeos.agent.messages import Usage

MAX_TOKENS = 10**12
"""No call uses as many: a larger figure is no figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRules:
    """The path of each figure in the provider's usage object, like ``details.cached``.

    includes_cached  the input counts what was read from a cache or written to one
    cache_write      all that was written to a cache, that for an hour included
    total            input and output together: what it has beyond both is output (thinking, which
                     some providers leave out of their output)

    An empty path: this provider does not report it.
    """

    includes_cached: bool
    input: str
    output: str
    cache_read: str = ""
    cache_write: str = ""
    cache_write_1h: str = ""
    total: str = ""


def usage_rules(fields: Fields, default: UsageRules) -> UsageRules:
    """The rules that a mapping of the configuration changes. ``fields`` reports wrong values."""
    flag = fields.flag("includes_cached")
    paths = {name: fields.text(name) for name in _PATHS}
    return UsageRules(
        includes_cached=default.includes_cached if flag is None else flag,
        **{name: getattr(default, name) if path is None else path for name, path in paths.items()},
    )


_PATHS = ("input", "output", "cache_read", "cache_write", "cache_write_1h", "total")


def read_usage(reported: Mapping[str, Any], rules: UsageRules) -> Usage:
    """The usage of one call, from the provider's usage object. Never raises.

    A figure of a cache that is there and is none makes the input unknown: it could be any.
    """
    read, hour = _figure(reported, rules.cache_read), _figure(reported, rules.cache_write_1h)
    written = _figure(reported, rules.cache_write)
    whole = _figure(reported, rules.input)
    fresh = whole
    if whole is not None and rules.includes_cached:
        fresh = _without(whole, (read or 0) + max(written or 0, hour or 0))
    caches = (rules.cache_read, rules.cache_write, rules.cache_write_1h)
    if any(
        _found(reported, path) is not None and _figure(reported, path) is None for path in caches
    ):
        fresh = None
    return Usage(
        input_tokens=fresh,
        output_tokens=_output(reported, rules, whole),
        cache_read_tokens=read,
        cache_write_tokens=written if written is None else _without(written, hour or 0),
        cache_write_1h_tokens=hour,
    )


def _output(reported: Mapping[str, Any], rules: UsageRules, whole: int | None) -> int | None:
    output, total = _figure(reported, rules.output), _figure(reported, rules.total)
    if output is None or total is None or whole is None:
        return output
    return max(output, total - whole)


def _without(whole: int, part: int) -> int | None:
    """The rest; None where the part is larger: then neither is to be believed."""
    return whole - part if part <= whole else None


def _found(reported: Mapping[str, Any], path: str) -> object:
    found: object = reported
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _figure(reported: Mapping[str, Any], path: str) -> int | None:
    found = _found(reported, path)
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    return found if type(found) is int and 0 <= found <= MAX_TOKENS else None
