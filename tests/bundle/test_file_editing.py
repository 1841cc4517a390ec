"""`read`, `edit_lines` and `write`: ids of lines, and files that change as a whole."""

import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.programs import require_program
from tests.support.tool_functions import call, refused, tool_module

READ, EDIT, WRITE = "rye/file-system/read", "rye/file-system/edit_lines", "rye/file-system/write"
posix = pytest.mark.skipif(sys.platform == "win32", reason="modes of files")


def put(project: Path, data: bytes, name: str = "a.txt") -> Path:
    path = project / name
    path.write_bytes(data)
    return path


def ids(project: Path, name: str = "a.txt") -> list[str]:
    content: str = call(READ, project, path=name, ids=True)["content"]
    return [line.partition(":")[2].partition("|")[0] for line in content.splitlines()]


def edit(project: Path, *edits: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401
    answer = call(EDIT, project, path="a.txt", edits=list(edits), **more)
    assert answer["success"], answer
    return answer


# --- read


def test_a_line_is_shown_with_its_number_and_id(tmp_path: Path) -> None:
    put(tmp_path, b"a\n}\nb\n}\n")

    answer = call(READ, tmp_path, path="a.txt", ids=True)

    content = answer.pop("content")
    assert answer == {
        "success": True,
        "path": "a.txt",
        "size": 8,
        "hash": sha256(b"a\n}\nb\n}\n").hexdigest(),
        "encoding": "utf-8",
        "line_end": "lf",
        "final_newline": True,
        "total_lines": 4,
    }
    # Lines with one text have one id, and a number from the second on.
    assert re.fullmatch(r"1:(\w{6})\|a\n2:(\w{6})\|\}\n3:(\w{6})\|b\n4:\2\.2\|\}\n", content)


def test_the_id_of_a_line_is_the_same_wherever_it_is(tmp_path: Path) -> None:
    put(tmp_path, b"a\nb\nc")
    before = ids(tmp_path)
    put(tmp_path, b"new\r\nc\r\na\r\n\r\nb\r\n")

    assert [before[2], before[0]] == ids(tmp_path)[1:3]


def test_long_texts_are_read_in_parts(tmp_path: Path) -> None:
    put(tmp_path, b"".join(b"line %d\n" % number for number in range(5000)))

    first = call(READ, tmp_path, path="a.txt", ids=False)
    second = call(READ, tmp_path, path="a.txt", ids=False, offset=first["next_offset"], limit=2)

    assert (first["truncated"], first["next_offset"], first["total_lines"]) == (True, 2001, 5000)
    assert second["content"] == "line 2000\nline 2001\n"
    assert refused(READ, tmp_path, path="a.txt", offset=5001) == (
        "offset: expected at most 5000, the last line, found 5001"
    )


def test_an_answer_is_bounded_in_bytes(tmp_path: Path) -> None:
    put(tmp_path, ("ä" * 300 + "\n").encode() * 100 + b"x" * 10_000)

    answer = call(READ, tmp_path, path="a.txt", max_bytes=2000)
    last = call(READ, tmp_path, path="a.txt", offset=101, ids=False)

    assert len(answer["content"].encode()) <= 2000
    assert answer["next_offset"] == 4
    assert (last["content"], last["truncated"]) == (f"{'x' * 2000}... (10000 characters)\n", True)


@pytest.mark.parametrize(
    ("data", "encoding", "line_end"),
    [
        ("ä\nö".encode(), "utf-8", "lf"),
        ("\ufeffä\r\nö\r\n".encode(), "utf-8", "crlf"),
        ("ä\nö".encode("latin-1"), "latin-1", "lf"),
        ("ä\nö".encode("utf-16"), "utf-16-le", "lf"),
        ("\ufeffä\rö\r".encode("utf-16-be"), "utf-16-be", "cr"),
        (b"a\nb\r\nc", "utf-8", "mixed"),
        (b"", "utf-8", "lf"),
    ],
)
def test_encodings_and_line_ends_are_seen(
    data: bytes, encoding: str, line_end: str, tmp_path: Path
) -> None:
    put(tmp_path, data)

    answer = call(READ, tmp_path, path="a.txt", ids=False)

    assert (answer["encoding"], answer["line_end"]) == (encoding, line_end)
    if encoding != "utf-8" or data[:1] > b"b":
        assert answer["content"] == "ä\nö\n"


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n\0", "image/png"),
        (b"\xff\xfe\xff", "application/octet-stream"),
        (b"a\0b", "application/octet-stream"),
        (b"\x80\x01\x02", "application/octet-stream"),
    ],
)
def test_bytes_are_not_shown_as_text(data: bytes, media_type: str, tmp_path: Path) -> None:
    put(tmp_path, data)

    answer = call(READ, tmp_path, path="a.txt")

    assert (answer["binary"], answer["media_type"]) == (True, media_type)
    assert "content" not in answer
    assert call(READ, tmp_path, path="a.txt", as_base64=True)["base64"]


def test_a_wrong_encoding_is_reported(tmp_path: Path) -> None:
    put(tmp_path, "ä".encode("latin-1"))

    assert refused(READ, tmp_path, path="a.txt", encoding="utf-9") == (
        "encoding: there is none named utf-9"
    )
    assert refused(READ, tmp_path, path="a.txt", encoding="utf-8").startswith(
        "a.txt: 'utf-8' codec can't decode"
    )
    assert refused(READ, tmp_path, path="a.txt", encoding="utf-7")
    assert refused(READ, tmp_path, path="b.txt") == "b.txt: there is no such file"
    assert call(READ, tmp_path, path="b.txt")["hint"] == "did you mean a.txt?"
    assert call(READ, tmp_path, path="q")["hint"] == "rye/file-system/glob finds files"
    assert refused(READ, tmp_path, path="b/a.txt") == "b/a.txt: there is no folder b"
    assert refused(READ, tmp_path, path="a.txt/b") == "a.txt/b: a.txt is no folder"


# --- edit_lines


def test_several_edits_are_made_at_once(tmp_path: Path) -> None:
    path = put(tmp_path, b"a\nb\nc\nd\ne\n")
    a, b, c, d, _ = ids(tmp_path)

    answer = edit(
        tmp_path,
        {"action": "replace", "line": b, "to": c, "text": "B\nC"},
        {"action": "delete", "line": d},
        {"action": "insert_before", "line": a, "text": "top\n"},
        {"action": "insert_after", "line": "end", "text": "last"},
    )

    assert path.read_bytes() == b"top\na\nB\nC\ne\nlast\n"
    assert answer["diff"] == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,5 +1,6 @@\n+top\n a\n-b\n-c\n+B\n+C\n-d\n e\n+last\n"
    )
    shown = answer["lines"].splitlines()
    now = ids(tmp_path)
    assert shown == [f"1:{now[0]}|top", f"3:{now[2]}|B", f"4:{now[3]}|C", f"6:{now[5]}|last"]
    assert answer["hash"] == call(READ, tmp_path, path="a.txt")["hash"]


def test_a_line_that_is_gone_is_not_edited(tmp_path: Path) -> None:
    path = put(tmp_path, b"a\nb\n")
    gone = ids(tmp_path)[0]
    path.write_bytes(b"changed\nb\n")

    problem = refused(
        EDIT,
        tmp_path,
        path="a.txt",
        edits=[
            {"action": "delete", "line": ids(tmp_path)[1]},
            {"action": "replace", "line": gone, "text": "x"},
        ],
    )

    assert problem == f"edits[1].line: expected the id of a line, found {gone!r}: it is gone"
    assert path.read_bytes() == b"changed\nb\n"


def test_a_text_is_not_replaced_in_a_file_that_has_changed_since_its_hash(tmp_path: Path) -> None:
    path = put(tmp_path, b"a\nb\n")
    seen = call(READ, tmp_path, path="a.txt")["hash"]
    path.write_bytes(b"a\nb\nanother one's\n")

    problem = refused(
        EDIT, tmp_path, path="a.txt", hash=seen, edits=[{"old_text": "b", "new_text": "c"}]
    )

    assert problem == (
        "edits[0].old_text: the file has changed since the one of this hash was read"
    )
    assert path.read_bytes() == b"a\nb\nanother one's\n"


def test_lines_that_are_there_twice_need_the_hash_of_the_file(tmp_path: Path) -> None:
    path = put(tmp_path, b"}\na\n}\n")
    last, seen = ids(tmp_path)[2], call(READ, tmp_path, path="a.txt")["hash"]
    delete = {"action": "delete", "line": last}

    problem = f"edits[0].line: {last!r} is ambiguous: there are several such lines, and "
    assert refused(EDIT, tmp_path, path="a.txt", edits=[delete]) == f"{problem}hash is not given"
    assert refused(EDIT, tmp_path, path="a.txt", edits=[delete], hash="0" * 64) == (
        f"{problem}the file has changed since the one of this hash was read"
    )
    edit(tmp_path, delete, hash=seen)

    assert path.read_bytes() == b"}\na\n"


@pytest.mark.parametrize(
    ("edits", "problem"),
    [
        (
            [("delete", 0, {"to": 2}), ("replace", 1, {"text": "x"})],
            "edits: two of them change line 2",
        ),
        ([("delete", 2, {"to": 0})], "edits[0]: expected to at or below line, found it above"),
        ([("delete", 0, {"text": "x"})], "edits[0]: expected no text with delete"),
        ([("replace", 0, {})], "edits[0]: expected text with replace"),
        (
            [("insert_after", 0, {"text": "", "to": 1})],
            "edits[0]: expected no to with insert_after",
        ),
    ],
)
def test_invalid_edits_change_nothing(
    edits: list[tuple[str, int, dict[str, Any]]], problem: str, tmp_path: Path
) -> None:
    path = put(tmp_path, b"a\nb\nc\n")
    names = ids(tmp_path)
    given_edits = [
        {"action": action, "line": names[at]}
        | more
        | ({"to": names[more["to"]]} if "to" in more else {})
        for action, at, more in edits
    ]

    assert refused(EDIT, tmp_path, path="a.txt", edits=given_edits) == problem
    assert path.read_bytes() == b"a\nb\nc\n"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a\r\nb\r\n", b"a\r\nx\r\ny\r\nb\r\n"),
        (b"a\nb", b"a\nx\ny\nb"),
        (b"a", b"a\nx\ny"),
        ("\ufeffa\nb\n".encode("utf-16-le"), "\ufeffa\nx\ny\nb\n".encode("utf-16-le")),
        ("a\nä\n".encode("latin-1"), "a\nx\ny\nä\n".encode("latin-1")),
        (b"a\r\nb\nc\r\n", b"a\r\nx\r\ny\r\nb\nc\r\n"),
    ],
)
def test_line_ends_encoding_and_the_last_newline_stay(
    data: bytes, expected: bytes, tmp_path: Path
) -> None:
    path = put(tmp_path, data)

    edit(tmp_path, {"action": "insert_after", "line": ids(tmp_path)[0], "text": "x\ny"})

    assert path.read_bytes() == expected


def test_an_empty_file_can_be_filled_and_emptied(tmp_path: Path) -> None:
    path = put(tmp_path, b"")

    edit(tmp_path, {"action": "insert_after", "line": "start", "text": "a\nb\n"})
    assert path.read_bytes() == b"a\nb\n"
    first, last = ids(tmp_path)
    edit(tmp_path, {"action": "delete", "line": first, "to": last})

    assert path.read_bytes() == b""


def test_a_character_outside_of_the_encoding_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "ä\n".encode("latin-1"))
    one = {"action": "insert_after", "line": "end", "text": "€"}

    assert refused(EDIT, tmp_path, path="a.txt", edits=[one]) == (
        "a.txt: its encoding is latin-1; '€' cannot be written in it"
    )


@posix
def test_the_mode_of_a_file_stays_and_no_temporary_file_is_left(tmp_path: Path) -> None:
    path = put(tmp_path, b"a\n")
    path.chmod(0o751)

    edit(tmp_path, {"action": "insert_after", "line": "end", "text": "b"})

    assert path.stat().st_mode & 0o777 == 0o751
    assert os.listdir(tmp_path) == ["a.txt"]  # noqa: PTH208 - names are enough


@posix
def test_a_file_that_is_read_only_stays_as_it_is(tmp_path: Path) -> None:
    path = put(tmp_path, b"a\n")
    path.chmod(0o444)
    one = {"action": "insert_after", "line": "end", "text": "b"}

    assert refused(EDIT, tmp_path, path="a.txt", edits=[one]) == "a.txt: it is read-only"
    assert refused(WRITE, tmp_path, path="a.txt", content="", overwrite=True) == (
        "a.txt: it is read-only"
    )
    assert [entry.read_bytes() for entry in tmp_path.iterdir()] == [b"a\n"]


def test_a_dry_run_only_shows_the_diff(tmp_path: Path) -> None:
    path = put(tmp_path, b"a\n")

    answer = edit(tmp_path, {"action": "insert_after", "line": "end", "text": "b"}, dry_run=True)

    assert "+b\n" in answer["diff"]
    assert path.read_bytes() == b"a\n"


LINES = st.lists(st.text(st.sampled_from("ab}ä \t"), max_size=3), min_size=1, max_size=30)
CUTS = st.lists(
    st.tuples(
        st.integers(0, 30), st.integers(0, 3), st.lists(st.text("xy", max_size=2), max_size=3)
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.property
@given(lines=LINES, cuts=CUTS)
def test_edits_agree_with_slices_of_a_list_and_with_patch(
    lines: list[str],
    cuts: list[tuple[int, int, list[str]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    require_program("git")
    folder = tmp_path_factory.mktemp("edits")
    put(folder, "".join(f"{line}\n" for line in lines).encode())
    read = call(READ, folder, path="a.txt")
    names = ids(folder)
    edits, expected, free = [], list(lines), len(lines)
    for first, size, new in sorted(cuts, reverse=True, key=lambda cut: cut[0]):
        last = min(first + size, free)
        if first >= last or not new:
            continue
        text = "".join(f"{line}\n" for line in new)
        edits.append(
            {"action": "replace", "line": names[first], "to": names[last - 1], "text": text}
        )
        expected[first:last] = new
        free = first
    if not edits:
        return

    answer = edit(folder, *edits, hash=read["hash"])

    wanted = "".join(f"{line}\n" for line in expected)
    assert (folder / "a.txt").read_text("utf-8") == wanted
    put(folder, "".join(f"{line}\n" for line in lines).encode())
    patch = ["git", "-C", str(folder), "apply", "--unidiff-zero", "--allow-empty", "-"]
    if answer["changed"]:
        subprocess.run(patch, input=answer["diff"].encode(), check=True, capture_output=True)
        assert (folder / "a.txt").read_text("utf-8") == wanted


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("two", "2", "one 2 three\nfour\n"),
        ("three\nfo", "3\nf", "one two 3\nfur\n"),
        (" two", "", "one three\nfour\n"),
        ("e\nf", "\n\n", "one two thre\n\nour\n"),
        ("one two three", "1\n2", "1\n2\nfour\n"),
    ],
)
def test_a_part_of_lines_is_replaced_by_its_text(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    path = put(tmp_path, b"one two three\nfour\n")

    reply = call(EDIT, tmp_path, path="a.txt", edits=[{"old_text": old, "new_text": new}])

    assert path.read_text("utf-8") == expected
    assert reply["changed"] is True


def test_a_part_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, b"one two\none\nx one\n")

    reply = call(EDIT, tmp_path, path="a.txt", edits=[{"old_text": "on", "new_text": "x"}])

    assert reply["error"] == "edits[0].old_text: expected it once, found it 3 times"
    assert reply["hint"].startswith("it is at lines 1, 2, 3: give more of it")
    assert path.read_bytes() == b"one two\none\nx one\n"


def test_whole_lines_are_replaced_by_their_text(tmp_path: Path) -> None:
    path = put(tmp_path, b"one\ntwo\nthree\ntwo\n")

    def edit(**one: str) -> dict[str, Any]:
        return call(EDIT, tmp_path, path="a.txt", edits=[one])

    changed = edit(old_text="two\nthree", new_text="2\n3")
    gone = edit(old_text="one", new_text="")
    several = edit(old_text="nowhere", new_text="x")
    mixed = edit(old_text="2", new_text="x", line="end", action="delete")

    assert path.read_bytes() == b"2\n3\ntwo\n"
    assert (changed["changed"], gone["changed"]) == (True, True)
    assert several["error"] == "edits[0].old_text: expected it once, found none"
    assert "expected old_text and new_text alone" in mixed["error"]


def test_a_missing_text_is_answered_with_the_most_similar_line(tmp_path: Path) -> None:
    put(tmp_path, b"def greet(name):\n    return 'hello ' + name\n")

    def hint(old_text: str) -> object:
        edits = [{"old_text": old_text, "new_text": "x"}]
        return call(EDIT, tmp_path, path="a.txt", edits=edits)["hint"]

    assert hint("return hello + name") == "line 2 is:     return 'hello ' + name"
    assert hint("zzz") == "as it is in the file, without ids of lines"


def test_two_lines_that_are_like_a_text_are_both_shown(tmp_path: Path) -> None:
    put(tmp_path, b"t = 0.0\nfor p in prices:\n    t += p\n")

    reply = call(EDIT, tmp_path, path="a.txt", edits=[{"old_text": "t = 1", "new_text": "x"}])

    assert reply["hint"] == "line 1 is: t = 0.0; line 3 is:     t += p"


def test_of_a_text_that_is_there_twice_none_is_chosen(tmp_path: Path) -> None:
    put(tmp_path, b"same\nsame\n")

    reply = call(EDIT, tmp_path, path="a.txt", edits=[{"old_text": "same", "new_text": "x"}])

    assert reply["error"] == "edits[0].old_text: expected it once, found it 2 times"


def test_a_line_is_named_by_its_number_where_that_is_certain(tmp_path: Path) -> None:
    path = put(tmp_path, b"one\ntwo\n")
    seen = call(READ, tmp_path, path="a.txt", ids=True)
    shown = seen["content"].splitlines()[1].partition("|")[0]
    delete = {"action": "delete", "line": "2"}

    bare = call(EDIT, tmp_path, path="a.txt", edits=[delete])
    wrong = call(EDIT, tmp_path, path="a.txt", edits=[{**delete, "line": "1:nosuch"}])
    beyond = call(EDIT, tmp_path, path="a.txt", edits=[{**delete, "line": "9"}])
    right = call(EDIT, tmp_path, path="a.txt", edits=[{**delete, "line": shown}])
    hashed = call(EDIT, tmp_path, path="a.txt", hash=right["hash"], edits=[{**delete, "line": "1"}])

    assert bare["error"] == "edits[0].line: a number counts with the hash of the file"
    assert "line 1 is now" in wrong["error"]
    assert beyond["error"] == "edits[0].line: expected a line from 1 to 2, found 9"
    assert (hashed["changed"], path.read_bytes()) == (True, b"")


# --- write


def test_a_new_file_is_written_with_its_folders(tmp_path: Path) -> None:
    refusal = call(WRITE, tmp_path, path="a/b/c.txt", content="x", create_folders=False)
    assert refusal["error"] == "a/b/c.txt: there is no folder a"
    assert refusal["hint"] == "rye/file-system/write makes them with create_folders: true"

    answer = call(WRITE, tmp_path, path="a/b/c.txt", content="ä\r\n")

    assert (tmp_path / "a/b/c.txt").read_bytes() == "ä\r\n".encode()
    assert (answer["path"], answer["size"], answer["created"]) == ("a/b/c.txt", 4, True)


def test_an_existing_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = put(tmp_path, b"old")
    seen = call(READ, tmp_path, path="a.txt")["hash"]

    assert refused(WRITE, tmp_path, path="a.txt", content="x") == (
        "a.txt: there is such a file already"
    )
    assert call(WRITE, tmp_path, path="a.txt", content="new", hash=seen)["success"]
    assert "it was changed" in refused(WRITE, tmp_path, path="a.txt", content="x", hash=seen)
    assert call(WRITE, tmp_path, path="a.txt", content="newer", overwrite=True)["success"]

    assert path.read_bytes() == b"newer"
    assert refused(WRITE, tmp_path, path="b.txt", content="x", hash=seen) == (
        "b.txt: expected the file of this hash, found none"
    )


def test_bytes_are_written_as_they_are(tmp_path: Path) -> None:
    call(WRITE, tmp_path, path="a.bin", content_base64="AP8=")

    assert (tmp_path / "a.bin").read_bytes() == b"\0\xff"


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({}, "expected one of content and content_base64"),
        ({"content": "", "content_base64": ""}, "expected one of content and content_base64"),
        ({"content_base64": "xx"}, "content_base64: Incorrect padding"),
        ({"content": "ä", "encoding": "rye"}, "encoding: there is none named rye"),
        ({"content": "", "path": "b/"}, "b/: expected the name of a file, found a folder's"),
        ({"content": "", "path": "."}, ".: expected the name of a file, found a folder's"),
    ],
)
def test_wrong_parameters_of_write_are_reported(
    params: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    assert refused(WRITE, tmp_path, **{"path": "a.txt", **params}) == problem
    assert list(tmp_path.iterdir()) == []


def test_another_users_new_file_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool_module(WRITE)
    confined = sys.modules["confined"]

    def nothing_yet(_: object) -> None:
        put(tmp_path, b"theirs")

    monkeypatch.setattr(confined.Place, "status", nothing_yet)

    assert refused(WRITE, tmp_path, path="a.txt", content="ours") == (
        "a.txt: another program made it meanwhile"
    )
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"theirs"]
