import os
import subprocess
import sys
from pathlib import Path

import pytest

from lillux.folder_restrictions import Access, FolderRestrictions
from lillux.landlock import confine, landlock_version
from lillux.process.model import Command
from lillux.process.spawn import started_words
from lillux.sandbox import Confinement

needs_landlock = pytest.mark.skipif(not landlock_version(), reason="this system has no Landlock")

CODE = """
import sys
from pathlib import Path
from lillux.landlock import confine

assert confine(map(Path, sys.argv[1].split(":")), map(Path, sys.argv[2].split(":")))
exec(sys.stdin.read())
"""


def confined(code: str, *, readable: list[Path], writable: list[Path]) -> str:
    """The output of a process that confines itself, and then runs the code."""
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
    """Code that prints ``refused`` when an action is not permitted."""
    return f"try:\n    {action}\nexcept PermissionError:\n    print('refused')\n"


@needs_landlock
def test_only_named_folders_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "yes").mkdir()
    (tmp_path / "yes" / "file").write_text("read", encoding="utf-8")
    (tmp_path / "no").write_text("secret", encoding="utf-8")
    code = f"print(open('{tmp_path}/yes/file').read())\n" + refused(f"open('{tmp_path}/no')")

    assert confined(code, readable=[tmp_path / "yes"], writable=[]) == "read\nrefused\n"


@needs_landlock
def test_a_folder_to_read_cannot_be_written(tmp_path: Path) -> None:
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


def test_other_systems_have_no_landlock() -> None:
    assert landlock_version(platform="darwin") == 0
    assert confine([], [], platform="win32") is False


def test_the_profile_for_macos_names_each_folder_and_the_nearest_last() -> None:
    home = Path('/Users/a "b"\\c')
    held_back = FolderRestrictions(
        (
            (home / ".ai/config/keys/signing", Access.NONE),
            (home / ".ai/config/keys/signing/public_key.pem", Access.READ),
            (home / ".ai/config", Access.READ),
            (home / ".ai/state/cache", Access.ALL),
        )
    )

    ai = '(subpath "/Users/a \\"b\\"\\\\c/.ai'
    assert held_back.macos_profile().splitlines() == [
        "(version 1)",
        "(allow default)",
        f'(allow file-read-data {ai}/config"))',
        f'(deny file-write* {ai}/config"))',
        f'(allow file-read-data {ai}/state/cache"))',
        f'(allow file-write* {ai}/state/cache"))',
        f'(deny file-read-data {ai}/config/keys/signing"))',
        f'(deny file-write* {ai}/config/keys/signing"))',
        f'(allow file-read-data {ai}/config/keys/signing/public_key.pem"))',
        f'(deny file-write* {ai}/config/keys/signing/public_key.pem"))',
    ]


def test_a_program_is_started_behind_its_profile_on_macos(tmp_path: Path) -> None:
    held_back = FolderRestrictions(((tmp_path, Access.NONE),))
    command = Command(
        argv=("/bin/echo", "a"), env={}, confinement=Confinement(withholding=held_back)
    )

    words = started_words(command, platform="darwin")

    assert words[:2] == ("/usr/bin/sandbox-exec", "-p")
    assert words[2] == Confinement(withholding=held_back).macos_profile()
    assert words[3:] == ("/bin/echo", "a")


HELD_BACK = """
import subprocess, sys, time
from pathlib import Path
from lillux.process import ProcessManager
from lillux.process.model import Command
from lillux.folder_restrictions import Access, FolderRestrictions
from lillux.sandbox import Confinement

home = Path(sys.argv[1])
held_back = Confinement(withholding=FolderRestrictions(((home / "keys", Access.NONE),)))

def read(name):
    command = Command(argv=("/bin/cat", str(home / name)), env={}, confinement=held_back)
    return ProcessManager().run(command).stdout.data.decode()

(home / "keys").mkdir()
(home / "keys/a").write_text("secret")
(home / "first").write_text("1")
print(read("first"), repr(read("keys/a")), end=" ")
time.sleep(0.1)
print(read("first"), read("first"), end=" ")
(home / "second").write_text("2")
(home / "keys").rename(home / "moved")
(home / "keys").mkdir()
(home / "keys/a").write_text("secret")
print(read("second"), repr(read("keys/a")), end=" ")
(home / "third").mkdir()
(home / "third/b").write_text("3")
print(read("third/b"))
"""


@needs_landlock
def test_rules_are_made_again_when_a_folder_got_an_entry(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HELD_BACK, tmp_path],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=Path(__file__).parents[2],
    )

    assert (ended.stdout, ended.stderr) == ("1 '' 1 1 2 '' 3\n", "")
