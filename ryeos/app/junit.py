"""Results of tests as JUnit's XML, which build servers show. Pure."""

import re
from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from ryeos.app.item_tests import CaseResult, CaseState

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(results: Sequence[CaseResult]) -> str:
    """One ``testsuite`` with a ``testcase`` for each result."""
    counts = {state: sum(result.state is state for result in results) for state in CaseState}
    seconds = sum(result.duration_s for result in results)
    cases = "".join(map(_junit_case, results))
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites><testsuite name="rye" tests="{len(results)}"'
        f' failures="{counts[CaseState.FAILED]}" errors="0" skipped="{counts[CaseState.SKIPPED]}"'
        f' time="{seconds:.3f}">\n{cases}</testsuite></testsuites>\n'
    )


def _junit_case(result: CaseResult) -> str:
    opening = (
        f"<testcase classname={_attribute(result.ref)} name={_attribute(result.name)}"
        f' time="{result.duration_s:.3f}"'
    )
    if result.state is CaseState.PASSED:
        return f"{opening}/>\n"
    first = _attribute(result.problems[0])
    if result.state is CaseState.SKIPPED:
        return f"{opening}><skipped message={first}/></testcase>\n"
    text = escape(_plain("\n".join(result.problems)))
    return f"{opening}><failure message={first}>{text}</failure></testcase>\n"


def _attribute(text: str) -> str:
    return quoteattr(_plain(text))


def _plain(text: str) -> str:
    """Without what XML cannot hold."""
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
