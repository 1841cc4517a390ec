"""A confined program in a mediated folder gets what an unconfined one gets elsewhere."""

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lillux.process import ProcessManager
from lillux.process.model import Command
from lillux.sandbox import Confinement, Mediation, obstacle
from tests.lillux.test_mediation import snapshot

pytestmark = [
    pytest.mark.property,
    pytest.mark.skipif(
        bool(obstacle(Confinement(mediated=Mediation(()), is_hardened=True))),
        reason="Linux holds it",
    ),
]
CODE = """
import json, os, sys
def opened(path, flags, mode):
    fd = os.open(path, flags, mode)
    try:
        os.write(fd, b"text") if flags & (os.O_WRONLY | os.O_RDWR) else None
    finally:
        os.close(fd)
acts = {
    "open": opened, "mkdir": os.mkdir, "rename": os.rename, "link": os.link,
    "symlink": os.symlink, "unlink": os.unlink, "rmdir": os.rmdir, "chmod": os.chmod,
    "utime": lambda path, at: os.utime(path, (at, at)), "truncate": os.truncate,
    "mkfifo": os.mkfifo, "umask": lambda mask: os.umask(mask) and None,
    "chdir": lambda path: os.chdir(path),
}
for name, *words in json.loads(sys.argv[1]):
    try:
        acts[name](*words)
        print("done")
    except OSError as error:
        print(error.errno)
"""
NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.one_of(
    NAMES,
    st.builds("{}/{}".format, NAMES, NAMES),
    st.builds("{}/{}/{}".format, NAMES, NAMES, NAMES),
    st.builds("{}/".format, NAMES),
    st.builds("{}/.".format, NAMES),
    st.builds("{}/../{}".format, NAMES, NAMES),
    st.builds("./{}".format, NAMES),
)
FLAGS = st.sampled_from(
    [
        os.O_WRONLY | os.O_CREAT,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL,
        os.O_WRONLY,
        os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW,
        os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
        os.O_WRONLY | os.O_APPEND,
        os.O_RDONLY | os.O_CREAT,
        os.O_RDWR | getattr(os, "O_DIRECTORY", 0),
    ]
).map(lambda flags: flags | os.O_NONBLOCK)  # a pipe would be waited for
MODES = st.sampled_from([0o600, 0o644, 0o777])
ACTS = st.one_of(
    st.tuples(st.just("open"), PATHS, FLAGS, MODES),
    st.tuples(st.just("mkdir"), PATHS, MODES),
    st.tuples(st.sampled_from(["rename", "link", "symlink"]), PATHS, PATHS),
    st.tuples(st.sampled_from(["unlink", "rmdir"]), PATHS),
    st.tuples(st.just("chmod"), PATHS, st.sampled_from([0o700, 0o755])),
    st.tuples(st.just("utime"), PATHS, st.integers(1, 10**6)),
    st.tuples(st.just("truncate"), PATHS, st.integers(0, 9)),
    st.tuples(st.just("mkfifo"), PATHS, MODES),
    st.tuples(st.just("umask"), st.sampled_from([0, 0o022, 0o077])),
)


@given(st.lists(ACTS, max_size=25))
@example([("open", "b", os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o600), ("truncate", "b/", 0)])
@example([("open", "b", os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, 0o600), ("link", "b/", "a")])
@example([("symlink", "a", "b"), ("link", "b/", "c")])
@example([("link", "a/.", "b"), ("link", "a/.", "b/"), ("link", "a/..", "a"), ("link", "a", "./c")])
@example([("symlink", "b", "b"), ("link", "b/", "c"), ("link", "b", "c")])
@example([("symlink", "a", "b"), ("open", "b", os.O_RDWR | os.O_DIRECTORY | os.O_NONBLOCK, 0o600)])
def test_a_sequence_of_changes_has_the_result_that_it_has_elsewhere(
    acts: list[tuple[object, ...]],
) -> None:
    with TemporaryDirectory() as folder:
        found = []
        for name in ("free", "mediated"):
            place = Path(folder).resolve() / name
            (place / "a").mkdir(parents=True)
            (place / ".ai").mkdir()
            wanted = Confinement(
                writable=(Path("/dev/null"),), mediated=Mediation((place,), (place / ".ai",))
            )
            command = Command(
                argv=(sys.executable, "-I", "-c", CODE, json.dumps(acts)),
                env={},
                cwd=place,
                timeout_s=60,
                confinement=wanted if name == "mediated" else None,
            )
            outcome = ProcessManager().run(command)
            found.append((outcome.stdout.data, outcome.stderr.data, snapshot(place)))

    assert found[1] == found[0]
