import pytest

from packing import BuildError
from packing.wheels import COMPILED, LOCK, _pins, requirements
from tests.support.built import ROOT

LOCKED = """\
# comment
Alpha==1.0 ; python_version < "4" \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via something
beta==2.1 \\
    --hash=sha256:cc
"""


def test_a_lock_is_read_pin_by_pin_with_its_hashes_and_without_markers() -> None:
    assert requirements(LOCKED) == {
        "alpha": "Alpha==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n",
        "beta": "beta==2.1 \\\n    --hash=sha256:cc\n",
    }


def test_a_library_that_the_lock_does_not_have_is_named() -> None:
    with pytest.raises(BuildError) as error:
        _pins(LOCKED, ["beta", "gamma", "delta"])

    assert str(error.value) == f"{LOCK}: expected a pin for delta, gamma, found none"


def test_the_lock_of_the_project_pins_every_library_with_a_compiled_module() -> None:
    locked = requirements((ROOT / LOCK).read_text("utf-8"))

    assert locked.keys() >= COMPILED.keys()
    assert [name for name, pin in locked.items() if "--hash=sha256:" not in pin] == []
