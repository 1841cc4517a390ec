from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from ryeos.app.item_tests import CaseResult, CaseState
from ryeos.app.junit import junit_xml


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own


def test_every_state_has_its_element() -> None:
    results = [
        CaseResult(ref="tool:a.test", name="one", state=CaseState.PASSED, duration_s=0.25),
        CaseResult(
            ref="tool:a.test", name="two", state=CaseState.FAILED, problems=("x < y", "more")
        ),
        CaseResult(
            ref="tool:a.test", name="three", state=CaseState.SKIPPED, problems=("not here: lua",)
        ),
    ]

    suite = parsed(junit_xml(results))[0]

    assert suite.attrib["tests"] == "3"
    assert (suite.attrib["failures"], suite.attrib["skipped"]) == ("1", "1")
    assert [[child.tag for child in case] for case in suite] == [[], ["failure"], ["skipped"]]
    assert suite[1][0].text == "x < y\nmore"
    assert suite[0].attrib == {"classname": "tool:a.test", "name": "one", "time": "0.250"}


@given(st.text())
def test_any_output_of_a_tool_becomes_valid_xml(text: str) -> None:
    result = CaseResult(ref="tool:a.test", name=text, state=CaseState.FAILED, problems=(text,))

    case = parsed(junit_xml([result]))[0][0]

    assert case.attrib["classname"] == "tool:a.test"
