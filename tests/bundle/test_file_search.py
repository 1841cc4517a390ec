"""`ls`, `glob` and `grep`: found and omitted files, in agreement with git and rg."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.programs import require_program
from tests.support.tool_functions import call, refused, tool_module

LS, GLOB, GREP = "rye/file-system/ls", "rye/file-system/glob", "rye/file-system/grep"
TREE = {
    "README.md": "# Tea\n\nTea is a drink.\n",
    "src/tea.py": "def brew(tea):\n    return tea\n",
    "src/pot/lid.py": "LID = 'tea'\r\n",
    "src/pot/notes.txt": "no drink\n",
    ".hidden/x.py": "tea\n",
    "build/out.py": "tea\n",
    "a.log": "tea\n",
    ".gitignore": "/build/\n*.log\n",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return tmp_path


def globbed(project: Path, *pattern: str, **more: Any) -> list[str]:  # noqa: ANN401
    answer = call(GLOB, project, pattern=list(pattern), **more)
    paths: list[str] = answer["paths"]
    return paths


@pytest.mark.parametrize("pattern", ["../*", "{project}/src/*.py", "src/../*"])
def test_a_pattern_out_of_the_folder_finds_nothing_and_says_why(
    pattern: str, project: Path
) -> None:
    answer = call(GLOB, project, pattern=pattern.format(project=project))

    assert (answer["total"], answer["hint"]) == (
        0,
        "a pattern is relative to path, which names the folder",
    )


def lines_found(project: Path, pattern: str, **more: Any) -> dict[str, list[str]]:  # noqa: ANN401
    answer = call(GREP, project, pattern=pattern, **more)
    assert answer["success"], answer
    return {one["path"]: one["lines"] for one in answer["results"]}


# --- ls


def test_a_folder_is_listed_with_kinds_and_sizes(project: Path) -> None:
    answer = call(LS, project)

    shown = [(one["name"], one["kind"], one.get("size")) for one in answer["entries"]]
    assert shown == [
        ("README.md", "file", 23),
        ("a.log", "file", 4),
        ("build", "folder", None),
        ("src", "folder", None),
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\+00:00", answer["entries"][0]["modified"])


def test_a_list_is_sorted_cut_and_goes_on(project: Path) -> None:
    os.utime(project / "a.log", (1, 1))
    os.utime(project / "README.md", (4_000_000_000, 4_000_000_000))

    newest = call(LS, project, sort="modified", limit=1)
    rest = call(LS, project, sort="modified", offset=newest["next_offset"])
    largest = call(LS, project, sort="size", ignored=False, hidden=True)

    assert [one["name"] for one in newest["entries"]] == ["README.md"]
    assert (newest["truncated"], newest["total"]) == (True, 4)
    assert rest["entries"][-1]["name"] == "a.log"
    assert [one["name"] for one in largest["entries"]] == [
        "README.md",
        ".gitignore",
        ".hidden",
        "src",
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="links")
def test_a_link_is_shown_and_not_followed(project: Path) -> None:
    (project / "src/out").symlink_to("/etc")

    [out] = [one for one in call(LS, project, path="src")["entries"] if one["name"] == "out"]

    assert (out["kind"], out["target"]) == ("link", "/etc")


def test_a_file_is_not_listed_as_a_folder(project: Path) -> None:
    assert refused(LS, project, path="a.log") == "a.log: expected a folder, found a file"
    assert refused(LS, project, path="b") == "b: there is no such folder"
    assert refused(GLOB, project, pattern="*", path="b") == "b: expected a folder, found none"


# --- glob


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("**/*.py", ["src/pot/lid.py", "src/tea.py"]),
        ("*.py", []),
        ("src/*", ["src/tea.py"]),
        ("src/**", ["src/pot/lid.py", "src/pot/notes.txt", "src/tea.py"]),
        ("**/pot/*.{py,txt}", ["src/pot/lid.py", "src/pot/notes.txt"]),
        ("s?c/[s-u]ea.py", ["src/tea.py"]),
        ("[!R]*", []),
        ("**", ["README.md", "src/pot/lid.py", "src/pot/notes.txt", "src/tea.py"]),
    ],
)
def test_globs_find_files(pattern: str, paths: list[str], project: Path) -> None:
    assert globbed(project, pattern) == paths


def test_globs_are_taken_out_and_restricted(project: Path) -> None:
    assert globbed(project, "**", "!**/*.py") == ["README.md", "src/pot/notes.txt"]
    assert globbed(project, "**", kind="folder") == ["src", "src/pot"]
    assert globbed(project, "*", path="src", kind="any") == ["src/pot", "src/tea.py"]
    assert globbed(project, "**/*.log", ignored=True) == ["a.log"]
    assert globbed(project, "**/*.py", hidden=True)[0] == ".hidden/x.py"
    assert globbed(project, "build/*", ignored=True) == ["build/out.py"]


def test_the_newest_file_comes_first_on_request(project: Path) -> None:
    os.utime(project / "src/tea.py", (4_000_000_000, 4_000_000_000))

    answer = call(GLOB, project, pattern="**", sort="modified", limit=1)

    assert (answer["paths"], answer["total"], answer["truncated"]) == (["src/tea.py"], 4, True)
    assert answer["modified"] == ["2096-10-02T07:06:40+00:00"]


def test_a_glob_of_many_stars_takes_no_long_time(tmp_path: Path) -> None:
    deep = tmp_path / "/".join(["aaaaaaaa"] * 20)
    deep.mkdir(parents=True)
    (deep / ("a" * 200)).touch()

    assert globbed(tmp_path, "*a" * 40 + "b") == []
    assert globbed(tmp_path, "**/" + "*a*/**/" * 20 + "b") == []
    assert refused(GLOB, tmp_path, pattern="{a,b}" * 20).endswith("for at most 256 globs")


# Names and rules of few letters, so that they meet.
NAMES = st.text(st.sampled_from("ab.x"), min_size=1, max_size=3).filter(
    lambda name: name.strip(".") and not name.startswith(".")
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
# A slash in brackets, or behind a backslash, is read otherwise: it ends a name, as everywhere else.
RULES = st.text(st.sampled_from("ab.x/*?!#[]\\ -"), max_size=7).filter(
    lambda rule: not re.search(r"\[[^\]]*/|\\/", rule)
)


def git_ignored(folder: Path, paths: list[str]) -> set[str]:
    """The paths that git ignores."""
    plain = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(folder), "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join(paths).encode(),
        env=plain,
        capture_output=True,
        check=False,
    )
    assert done.returncode < 2, done.stderr
    return set(done.stdout.decode().split("\0")) - {""}


@pytest.mark.property
@given(paths=st.sets(PATHS, min_size=1, max_size=8), rules=st.lists(RULES, max_size=4), inner=RULES)
def test_files_that_git_ignores_are_left_out(
    paths: set[str], rules: list[str], inner: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    require_program("git")
    assume(not any(other.startswith(f"{path}/") for path in paths for other in paths))
    folder = tmp_path_factory.mktemp("ignored")
    subprocess.run(["git", "init", "-q", str(folder)], check=True, capture_output=True)
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    (folder / ".gitignore").write_text("\n".join(rules), encoding="utf-8")
    if (folder / "a").is_dir():
        (folder / "a" / ".gitignore").write_text(inner, encoding="utf-8")

    found = set(globbed(folder, "**"))

    assert found == paths - git_ignored(folder, sorted(paths))


# --- grep


def test_lines_are_found_by_file(project: Path) -> None:
    answer = call(GREP, project, pattern="tea")

    assert answer == {
        "success": True,
        "files_searched": 4,
        "files": 2,
        "matches": 3,
        "results": [
            {"path": "src/tea.py", "lines": ["1:def brew(tea):", "2:    return tea"]},
            {"path": "src/pot/lid.py", "lines": ["1:LID = 'tea'"]},
        ],
    }


def test_other_modes_name_and_count(project: Path) -> None:
    named = call(GREP, project, pattern="tea", ignore_case=True, mode="files")
    counted = call(GREP, project, pattern="tea", mode="count", globs=["*.py", "!lid*"])

    assert named["paths"] == ["README.md", "src/tea.py", "src/pot/lid.py"]
    assert (counted["counts"], counted["matches"]) == ({"src/tea.py": 2}, 2)


def test_ignored_files_are_found_on_request(project: Path) -> None:
    answer = call(GREP, project, pattern="tea", hidden=True, ignored=True, mode="files")

    assert set(answer["paths"]) == {
        *("a.log", "src/tea.py", ".hidden/x.py", "build/out.py", "src/pot/lid.py")
    }
    assert lines_found(project, "tea", path="build") == {"build/out.py": ["1:tea"]}
    assert lines_found(project, "tea", path="a.log") == {"a.log": ["1:tea"]}


def test_lines_around_are_shown_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\nx\n3\nx\n5\n6\n7\nx\n", encoding="utf-8")

    assert lines_found(tmp_path, "x", context=1) == {
        "a": ["1-1", "2:x", "3-3", "4:x", "5-5", "7-7", "8:x"]
    }


@pytest.mark.parametrize(
    ("pattern", "text", "numbers"),
    [
        (r"a\s*b", "a\nb\na b\n", [3]),
        (r"[^x]+b", "a\nab\n", [2]),
        (r"^$", "a\n\nb\n", [2]),
        (r"$", "a\n", [1]),
        (r"x*", "a\nb", [1, 2]),
        (r"a$", "a\r\nb\r\n", [1]),
        (r"a\Z", "a\nb\n", [1]),
        (r"(?<!b)a", "ba\na\n", [2]),
        (r"(?!\n)b", "a\nb\n", [2]),
        (r"a\s*+$", "a \nb\n", [1]),
        (r"(?s)a.b", "a\nb\naxb\n", [3]),
        (r"\bä\b", "ä\nöä\n", [1]),
        (r"ä?b", "b\n", [1]),
        ("\u212a", "k\n", []),
        (r"a|b", "b\n", [1]),
        (r"(ab|cd)ef", "cdef\n", [1]),
        (r"ab{0,3}c", "ac\n", [1]),
        (r"x{y", "x{y\n", [1]),
        (r"\x41b", "Ab\n", [1]),
        (r"[]a]b", "]b\n", [1]),
        (r"a\.b\\", "a.b\\\n", [1]),
    ],
)
def test_a_pattern_is_for_single_lines(
    pattern: str, text: str, numbers: list[int], tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(text.encode())

    found = lines_found(tmp_path, pattern).get("a", [])

    assert [int(line.partition(":")[0]) for line in found] == numbers


PIECES = ["a", "b", "k", "ä", "\\.", ".", "[ab]", "[^a]", "(a|b)", "(?:ab)", "^", "$", "\\s", "\\w"]
PIECES += ["\\b", "|", "(?!a)", "(?i:k)", "\\\\", "-", "\\d", "\\S"]
PATTERNS = st.lists(
    st.tuples(st.sampled_from(PIECES), st.sampled_from(["", "", "", "*", "+", "?", "{2}", "*+"])),
    min_size=1,
    max_size=5,
).map(lambda parts: "".join(piece + more for piece, more in parts))
TEXTS = st.text(st.sampled_from("abkKä.\n\n -\\1\u212a"), max_size=30)


@pytest.mark.property
@given(pattern=PATTERNS, text=TEXTS, ignore_case=st.booleans())
def test_the_lines_found_are_those_that_match_alone(
    pattern: str, text: str, *, ignore_case: bool
) -> None:
    tool_module(GREP)
    patterns = sys.modules["patterns"]
    flags = re.IGNORECASE if ignore_case else 0
    try:
        alone = re.compile(pattern, flags)
    except re.error:
        return
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    expected = [number for number, line in enumerate(lines, 1) if alone.search(line)]

    ours = patterns.Pattern(pattern, literal=False, ignore_case=ignore_case)
    data = text.encode()
    count, found = ours.lines(data, 0, 1000, 100_000)

    assert ([number for number, _, _ in found], count) == (expected, len(expected))
    assert ours.may_match(data) or not expected
    assert (ours.count(data), ours.has(data)) == (len(expected), int(bool(expected)))


@pytest.mark.property
@given(wanted=st.text(st.sampled_from("a.*+(ä\\"), min_size=1, max_size=3), text=TEXTS)
def test_a_literal_is_text(wanted: str, text: str) -> None:
    tool_module(GREP)
    ours = sys.modules["patterns"].Pattern(wanted, literal=True, ignore_case=False)

    assert ours.count(text.encode()) == sum(wanted in line for line in text.split("\n"))


def test_an_answer_is_bounded_and_counts_all(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text("tea\n" * 100, encoding="utf-8")

    few = call(GREP, tmp_path, pattern="tea", limit=150)
    small = call(GREP, tmp_path, pattern="tea", limit=10_000, max_bytes=1000)
    named = call(GREP, tmp_path, pattern="tea", mode="files", limit=2)
    exact = call(GREP, tmp_path, pattern="tea", limit=300)

    assert [len(one["lines"]) for one in few["results"]] == [100, 50]
    assert (few["matches"], few["files"], few["truncated"]) == (300, 3, True)
    assert len(json.dumps(small)) < 2000
    assert (small["matches"], small["truncated"]) == (300, True)
    assert (named["paths"], named["files"], named["truncated"]) == (["a", "b"], 3, True)
    assert "truncated" not in exact


def test_a_very_long_line_is_shown_around_the_match(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 5000 + "tea" + "y" * 5000, encoding="utf-8")

    [line] = lines_found(tmp_path, "tea")["a"]

    assert line == f"1:...{'x' * 100}tea{'y' * 397}..."


def test_binary_files_are_searched_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"tea\0\n")
    (tmp_path / "b").write_bytes("tea\n".encode("utf-16"))
    (tmp_path / "c").write_bytes(b"te\xe4 tea\n")

    assert lines_found(tmp_path, "tea") == {"b": ["1:tea"], "c": ["1:te\ufffd tea"]}
    assert lines_found(tmp_path, "tea", binary=True)["a"] == ["1:tea\0"]


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"pattern": "("}, "pattern: missing ), unterminated subpattern at position 0"),
        ({"pattern": "a\nb"}, "pattern: expected one for single lines, found a line end in it"),
        ({"pattern": "a", "path": "none"}, "none: expected a file or folder, found nothing"),
    ],
)
def test_a_search_that_cannot_be_made_is_reported(
    params: dict[str, str], problem: str, tmp_path: Path
) -> None:
    assert refused(GREP, tmp_path, **params) == problem


def test_many_files_are_searched_by_several_processes(tmp_path: Path) -> None:
    for number in range(700):
        folder = tmp_path / f"d{number % 7}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number:03}").write_text(f"tea {number}\n" * (number % 3), encoding="utf-8")

    whole = call(GREP, tmp_path, pattern="tea", limit=10_000, max_bytes=1_000_000)
    part = call(GREP, tmp_path, pattern="tea", limit=40)

    shown = [(one["path"], line) for one in whole["results"] for line in one["lines"]]
    assert (len(shown), whole["files"], whole["files_searched"]) == (699, 466, 700)
    assert [(one["path"], line) for one in part["results"] for line in one["lines"]] == shown[:40]
    assert [one["path"] for one in whole["results"]] == sorted(
        one["path"] for one in whole["results"]
    )


@pytest.mark.parametrize(
    "arguments", [["word7"], ["-i", "WORD7"], [r"word7\d\b"], [r"[a-z]+7 "], ["-F", "word7 w"]]
)
def test_rg_finds_the_same(arguments: list[str], tmp_path: Path) -> None:
    program = require_program("rg")
    made = random.Random(8)  # noqa: S311 - a tree, no secret
    for number in range(60):
        folder = tmp_path / f"d{number % 5}"
        folder.mkdir(exist_ok=True)
        words = [f"word{made.randrange(99)}" for _ in range(90)]
        text = "\n".join(" ".join(words[at : at + 5]) for at in range(0, 90, 5))
        (folder / f"f{number}.txt").write_text(text, encoding="utf-8")

    ours = lines_found(
        tmp_path,
        arguments[-1],
        ignore_case="-i" in arguments,
        literal="-F" in arguments,
        limit=10_000,
        max_bytes=1_000_000,
    )

    command = [str(program), "--no-config", "-n", "--no-heading", *arguments, "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    theirs = sorted(done.stdout.decode().replace("./", "", 1).splitlines())
    assert sorted(f"./{path}:{line}" for path, lines in ours.items() for line in lines) == sorted(
        line if line.startswith("./") else f"./{line}" for line in theirs
    )


def test_a_folder_is_listed_with_all_below_it(tmp_path: Path) -> None:
    for name in ("a/b/c.txt", "a/d.txt", "e.txt", "node_modules/x.js", ".hidden/y"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("node_modules/\n", encoding="utf-8")

    whole = call("rye/file-system/ls", tmp_path, recursive=True, ignored=False)
    part = call("rye/file-system/ls", tmp_path, path="a", recursive=True, limit=2)

    assert [one["name"] for one in whole["entries"]] == [
        "a/",
        "a/b/",
        "a/b/c.txt",
        "a/d.txt",
        "e.txt",
    ]
    assert [one["name"] for one in part["entries"]] == ["b/", "b/c.txt"]
    assert (part["total"], part["next_offset"]) == (3, 2)
