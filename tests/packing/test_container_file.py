from pathlib import Path

import pytest

from packing import BuildError
from packing.container_file import command, pairs, read_container_file

CHECKOUT = Path(__file__).resolve().parents[2]

TEXT = """\
# a comment
FROM base:1 AS build
COPY . .
RUN make \\
    all

FROM base:2
COPY --from=build /src/out /opt/out
ENV A=1 \\
    B="two words"
HEALTHCHECK --interval=30s --timeout=5s \\
    CMD probe 'x y'
ENTRYPOINT ["/opt/out", "-v"]
CMD ["serve"]
"""


def test_stages_steps_and_flags_are_read() -> None:
    build, last = read_container_file(TEXT)

    assert (build.image, build.name, last.image, last.name) == ("base:1", "build", "base:2", "")
    assert [(step.line, step.name, step.text) for step in build.steps] == [
        (3, "COPY", ". ."),
        (4, "RUN", "make     all"),
    ]
    assert last.steps[0].flags == {"from": "build"}


def test_values_and_commands_are_read() -> None:
    _, last = read_container_file(TEXT)
    steps = {step.name: step for step in last.steps}

    assert pairs(steps["ENV"]) == {"A": "1", "B": "two words"}
    assert command(steps["ENTRYPOINT"]) == ["/opt/out", "-v"]
    assert command(steps["HEALTHCHECK"]) == ["sh", "-c", "probe 'x y'"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("RUN x", "container file, line 1: expected FROM first, found RUN"),
        ("FROM a\nADD x /y", "container file, line 2: expected a known instruction, found ADD"),
        (
            "FROM a\nRUN --mount=type=cache make",
            "container file, line 2: RUN: expected a known flag, found --mount",
        ),
        ("FROM a\nRUN x \\", "container file, line 2: expected another line behind the backslash"),
        ("FROM a b", "container file, line 1: expected FROM IMAGE [AS NAME]"),
    ],
)
def test_a_step_that_would_be_left_out_is_an_error(text: str, message: str) -> None:
    with pytest.raises(BuildError) as error:
        read_container_file(text)

    assert str(error.value) == message


def test_our_own_file_runs_without_root_and_keeps_its_data_in_a_volume() -> None:
    last = read_container_file((CHECKOUT / "deploy" / "Containerfile").read_text("utf-8"))[-1]
    steps = {step.name: step for step in last.steps}

    assert steps["USER"].text == "10001:10001"
    assert steps["VOLUME"].text == "/data"
    assert pairs(steps["ENV"])["RYE_NODE_DATA"] == "/data"
