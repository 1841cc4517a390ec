"""Results as JUnit's XML, which servers that build things show. Pure."""

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from ryeos.testing.running import Result, State

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(results: Sequence[Result]) -> str:
    """One ``testsuite`` with a ``testcase`` for each result."""
    counts = {state: sum(result.state is state for result in results) for state in State}
    seconds = sum(result.duration_s for result in results)
    cases = "".join(map(_case, results))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites><testsuite name="rye" tests="{len(results)}"'
        f' failures="{counts[State.FAILED]}" errors="0" skipped="{counts[State.SKIPPED]}"'
        f' time="{seconds:.3f}">\n{cases}</testsuite></testsuites>\n'
    )


def _case(result: Result) -> str:
    opening = (
        f"<testcase classname={_attribute(result.ref)} name={_attribute(result.name)}"
        f' time="{result.duration_s:.3f}"'
    )
    if result.state is State.PASSED:
        return f"{opening}/>\n"
    first = _attribute(result.problems[0])
    if result.state is State.SKIPPED:
        return f"{opening}><skipped message={first}/></testcase>\n"
    text = escape(_plain("\n".join(result.problems)))
    return f"{opening}><failure message={first}>{text}</failure></testcase>\n"


def _attribute(text: str) -> str:
    return quoteattr(_plain(text))


def _plain(text: str) -> str:
    """Without what XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
