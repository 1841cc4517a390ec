"""The ``sandbox:`` block of a header: its keys, and how blocks narrow each other."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.items.errors import SpecError
from ryeos.items.headers import parse_header
from ryeos.items.rights import ANYTHING, KEYS, NOTHING, Rights, read_rights
from ryeos.items.specs import tool_spec


def test_rights_that_a_block_does_not_name_are_not_given() -> None:
    assert read_rights({}) == NOTHING
    assert read_rights({"read": ["{project}"]}) == Rights(
        read=("{project}",), write=(), network=(), programs=(), env=()
    )
    assert read_rights({}, absent=ANYTHING) == ANYTHING


def test_a_block_is_shown_as_it_is_written() -> None:
    said = {
        "read": "any",
        "write": ["{project}/out", "{tmp}"],
        "network": ["api.github.com:443", "*.example.org:443", "[::1]:8080"],
        "programs": ["git", "/usr/lib/git-core"],
        "env": ["GITHUB_TOKEN", "LC_*"],
    }

    assert read_rights(said).describe() == said
    assert read_rights({"network": "loopback"}).describe()["network"] == "loopback"
    assert NOTHING.describe() == dict.fromkeys(KEYS, "none")


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ([], "sandbox: expected a mapping"),
        ({"reads": []}, "sandbox.reads: no key of it; did you mean read?"),
        ({"read": "all"}, "sandbox.read: expected any, none or a list"),
        ({"read": "loopback"}, "sandbox.read: expected any, none or a list"),
        ({"read": [1]}, "sandbox.read: expected any, none or a list"),
        ({"read": ["src"]}, "sandbox.read[0]: expected an absolute path"),
        ({"read": [""]}, "sandbox.read[0]: expected an absolute path"),
        ({"read": ["{projct}/a"]}, "sandbox.read[0]: expected one of {project}"),
        ({"write": ["{project}/../x"]}, "sandbox.write[0]: expected a path without '..'"),
        ({"write": ["/a\0b"]}, "sandbox.write[0]: expected a path without"),
        ({"write": ["{project}/*.txt"]}, "sandbox.write[0]: expected a folder or a file"),
        ({"read": ["/a"] * 65}, "sandbox.read: expected at most 64 entries"),
        ({"network": ["example.org"]}, "sandbox.network[0]: expected HOST:PORT"),
        ({"network": ["example.org:0"]}, "sandbox.network[0]: expected HOST:PORT"),
        ({"network": ["example.org:65536"]}, "sandbox.network[0]: expected HOST:PORT"),
        ({"network": ["example.org:٤٤٣"]}, "sandbox.network[0]: expected HOST:PORT"),
        ({"network": ["*:443"]}, "sandbox.network[0]: expected the name of a host"),
        ({"network": ["*.org:443"]}, "sandbox.network[0]: expected the name of a host"),
        ({"network": ["a.*.org:443"]}, "sandbox.network[0]: expected the name of a host"),
        ({"network": ["bücher.example:443"]}, "sandbox.network[0]: expected the name of a host"),
        ({"network": ["http://a.example:80"]}, "sandbox.network[0]: expected brackets around"),
        ({"network": ["2130706433:80"]}, "sandbox.network[0]: expected an address"),
        ({"network": ["127.1:80"]}, "sandbox.network[0]: expected an address"),
        ({"network": ["0x7f.0.0.0x1:80"]}, "sandbox.network[0]: expected an address"),
        ({"network": ["::1:80"]}, "sandbox.network[0]: expected brackets around"),
        ({"programs": ["git push"]}, "sandbox.programs[0]: expected the name or the path"),
        ({"programs": ["./run"]}, "sandbox.programs[0]: expected an absolute path"),
        ({"env": ["A=B"]}, "sandbox.env[0]: expected the name of a variable"),
        ({"env": ["*"]}, "sandbox.env[0]: expected the name of a variable"),
        (None, "sandbox: expected a mapping"),
    ],
)
def test_a_mistake_is_refused_and_named(block: object, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_rights(block)

    assert str(caught.value).startswith(problem)


def test_more_names_than_one_domain_may_follow_a_wildcard() -> None:
    assert read_rights({"network": ["*.Example.ORG:443"]}).network == ("*.example.org:443",)


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".py", '__executor_id__ = "x"\nSANDBOX = {"read": ["{project}"]}\n'),
        (".js", 'const __executor_id__ = "x";\nconst SANDBOX = { read: ["{project}"] };\n'),
        (".yaml", "executor_id: x\nsandbox:\n  read: ['{project}']\n"),
        (".json", '{"executor_id": "x", "sandbox": {"read": ["{project}"]}}'),
        (".toml", 'executor_id = "x"\n[sandbox]\nread = ["{project}"]\n'),
        (".sh", '#!/bin/bash\n# version: 1.0.0\n# sandbox: {"read": ["{project}"]}\n'),
        (".sh", '# version: 1.0.0\n# sandbox: {\n#   "read": ["{project}"]\n# }\necho\n'),
    ],
)
def test_every_type_of_file_can_declare(suffix: str, text: str) -> None:
    spec = tool_spec(parse_header(suffix, text, "x"), suffix)

    assert spec.sandbox == read_rights({"read": ["{project}"]})


@pytest.mark.parametrize(
    "text",
    [
        "# version: 1.0.0\n# sandbox: none\n",
        '# version: 1.0.0\n# sandbox: {"read": any}\n',
        '# version: 1.0.0\nSANDBOX="none"\n',
    ],
)
def test_a_block_of_a_script_that_cannot_be_read_is_an_error_and_not_no_block(text: str) -> None:
    with pytest.raises(Exception, match="sandbox"):
        parse_header(".sh", text, "x")


def test_domains_that_a_runtime_leaves_out_are_no_limit() -> None:
    header = {"tool_type": "runtime", "executor_id": "x", "sandbox": {"network": "none"}}

    spec = tool_spec(header, ".yaml")

    assert spec.sandbox == Rights(network=())


# --- narrowing ------------------------------------------------------------------------------------


def test_paths_hosts_programs_and_variables_narrow() -> None:
    wide = Rights(
        read=("/p",),
        write=("/p", "/tmp"),
        network=("*.example.org:443", "a.example:80"),
        programs=("git", "/usr/lib"),
        env=("GIT_*", "HOME"),
    )
    narrow = Rights(
        read=("/p/src", "/etc"),
        write=("/p/out",),
        network=("api.example.org:443", "*.example.org:80"),
        programs=("git", "node", "/usr/lib/git-core/git"),
        env=("GIT_DIR", "HOME", "X"),
    )

    assert wide.narrowed(narrow) == Rights(
        read=("/p/src",),
        write=("/p/out",),
        network=("api.example.org:443",),
        programs=("git", "/usr/lib/git-core/git"),
        env=("HOME", "GIT_DIR"),
    )


def test_a_folder_with_the_beginning_of_another_name_is_another_folder() -> None:
    assert Rights(read=("/p",)).narrowed(Rights(read=("/private",))).read == ()


def test_loopback_narrows_to_hosts_of_this_machine() -> None:
    hosts = Rights(network=("localhost:80", "127.0.0.1:81", "[::1]:82", "a.example:443"))
    loopback = Rights(network=("loopback",))

    assert hosts.narrowed(loopback).network == ("localhost:80", "127.0.0.1:81", "[::1]:82")
    assert loopback.narrowed(loopback).network == ("loopback",)
    assert loopback.narrowed(NOTHING).network == ()


def test_rights_beyond_the_limit_are_reported_by_key() -> None:
    runtime = Rights(network=(), write=("/p",))

    assert list(Rights(read=None, write=("/p/a",), network=None).excess_over(runtime)) == [
        "network"
    ]
    assert list(Rights(write=("/x",), network=()).excess_over(runtime)) == ["write"]
    assert list(NOTHING.excess_over(runtime)) == []


PATHS = st.lists(st.sampled_from(["/a", "/a/b", "/a/b/c", "/d", "/ab", "/"]), max_size=4)
HOSTS = st.lists(
    st.sampled_from(["a.b.c:1", "*.b.c:1", "*.c.d:1", "localhost:1", "127.0.0.1:2"]), max_size=4
)
NAMES = st.lists(st.sampled_from(["A", "AB", "A*", "AB*", "B"]), max_size=4)


def entries(strategy: st.SearchStrategy[list[str]]) -> st.SearchStrategy[tuple[str, ...] | None]:
    return st.one_of(st.none(), strategy.map(tuple))


RIGHTS = st.builds(
    Rights,
    read=entries(PATHS),
    write=entries(PATHS),
    network=st.one_of(entries(HOSTS), st.just(("loopback",))),
    programs=entries(st.lists(st.sampled_from(["git", "/usr/lib", "/usr/lib/x"]), max_size=3)),
    env=entries(NAMES),
)


@given(RIGHTS, RIGHTS)
def test_narrowing_never_gives_more(one: Rights, other: Rights) -> None:
    both = one.narrowed(other)

    for limit in (one, other):
        assert list(both.excess_over(limit)) == []
        for path in ("/", "/a", "/a/b", "/a/b/c", "/a/x", "/d", "/ab"):
            assert may_read(limit, path) or not may_read(both, path)
        for name in ("A", "AB", "ABC", "B"):
            assert limit.allows_variable(name) or not both.allows_variable(name)


@given(RIGHTS, RIGHTS)
def test_narrowing_keeps_rights_that_both_give(one: Rights, other: Rights) -> None:
    both = one.narrowed(other)

    for path in ("/a", "/a/b", "/a/b/c", "/d"):
        assert may_read(both, path) or not (may_read(one, path) and may_read(other, path))
    for name in ("A", "AB", "ABC", "B"):
        is_given = one.allows_variable(name) and other.allows_variable(name)
        assert both.allows_variable(name) or not is_given


@given(RIGHTS)
def test_narrowing_by_itself_or_by_all_rights_changes_nothing(one: Rights) -> None:
    assert one.narrowed(ANYTHING) == one
    assert list(one.excess_over(one)) == []


def may_read(rights: Rights, path: str) -> bool:
    folders = rights.read
    return folders is None or any(
        path == one or path.startswith(one.rstrip(os.sep) + os.sep) for one in folders
    )
