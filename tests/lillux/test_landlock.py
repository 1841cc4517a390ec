import os
import subprocess
import sys
from pathlib import Path

import pytest

from lillux.sandbox import confine, landlock_version

needs_landlock = pytest.mark.skipif(not landlock_version(), reason="this system has no Landlock")

CODE = """
import sys
from pathlib import Path
from lillux.sandbox import confine

assert confine(map(Path, sys.argv[1].split(":")), map(Path, sys.argv[2].split(":")))
exec(sys.stdin.read())
"""


def confined(code: str, *, readable: list[Path], writable: list[Path]) -> str:
    """What a process writes that has confined itself, and then runs the code."""
    system = [Path(place) for place in ("/usr", "/lib", "/lib64", "/etc", sys.base_prefix)]
    own = [Path(entry) for entry in sys.path if entry]
    places = (":".join(map(str, [*system, *own, *readable])), ":".join(map(str, writable)))
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", CODE, *places],
        input=code,
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=root,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(root)},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def refused(action: str) -> str:
    """Code that says ``refused`` when an action is not permitted."""
    return f"try:\n    {action}\nexcept PermissionError:\n    print('refused')\n"


@needs_landlock
def test_only_what_was_named_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "yes").mkdir()
    (tmp_path / "yes" / "file").write_text("read", encoding="utf-8")
    (tmp_path / "no").write_text("secret", encoding="utf-8")
    code = f"print(open('{tmp_path}/yes/file').read())\n" + refused(f"open('{tmp_path}/no')")

    assert confined(code, readable=[tmp_path / "yes"], writable=[]) == "read\nrefused\n"


@needs_landlock
def test_what_may_be_read_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    code = refused(f"open('{tmp_path}/in/new', 'w')") + f"open('{tmp_path}/out/new', 'w')"

    shown = confined(code, readable=[tmp_path / "in"], writable=[tmp_path / "out"])

    assert shown == "refused\n"
    assert (tmp_path / "out" / "new").exists()


@needs_landlock
def test_programs_that_are_started_have_no_more_rights(tmp_path: Path) -> None:
    (tmp_path / "no").write_text("secret", encoding="utf-8")
    code = f"import subprocess; print(subprocess.call(['cat', '{tmp_path}/no'], stderr=-3))"

    assert confined(code, readable=[], writable=[Path("/dev/null")]) == "1\n"


@needs_landlock
def test_files_move_between_folders_that_may_be_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "x").touch()
    code = f"import os; os.rename('{tmp_path}/a/x', '{tmp_path}/b/x')"

    confined(code, readable=[], writable=[tmp_path / "a", tmp_path / "b"])

    assert (tmp_path / "b" / "x").exists()


@needs_landlock
def test_a_file_outside_cannot_be_linked_in(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "no").write_text("secret", encoding="utf-8")
    code = (
        "import os\ntry:\n"
        f"    os.link('{tmp_path}/no', '{tmp_path}/in/x')\n"
        "except OSError:\n    print('refused')\n"
    )

    assert confined(code, readable=[], writable=[tmp_path / "in"]) == "refused\n"


def test_other_systems_have_none() -> None:
    assert landlock_version(platform="darwin") == 0
    assert confine([], [], platform="win32") is False
