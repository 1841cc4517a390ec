import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.items.errors import IntegrityError, RyeError
from ryeos.items.yaml import parse_yaml
from ryeos.remote.remote_values import CONFIG_PATH, RemoteConfigError
from ryeos.remote.remotes_file import NEW_TEXT, RemotesFile, with_remote, without_remote
from ryeos.remote.settings import RemoteNotFoundError, read_remotes
from ryeos.trust.signing_key import SigningKey
from tests.support.errors import coded
from tests.support.workspace import Workspace

URL = "https://gpu.example"


def remotes_file(workspace: Workspace, *, has_key: bool = True) -> RemotesFile:
    key = SigningKey(workspace.keypair) if has_key else None
    return RemotesFile(workspace.user.space, workspace.rye().verifier, lambda: key)


def names(workspace: Workspace) -> tuple[str, ...]:
    return read_remotes(workspace.rye().config.layers(CONFIG_PATH), {}).names


def test_a_new_file_is_signed(workspace: Workspace) -> None:
    remotes_file(workspace).add("gpu", {"url": URL, "timeout": 5})

    text = (workspace.user.space.ai / "config" / CONFIG_PATH).read_text(encoding="utf-8")
    assert text.startswith("# rye:signed:")
    assert text.endswith('remotes:\n  gpu:\n    url: "https://gpu.example"\n    timeout: 5\n')
    assert names(workspace) == ("gpu",)


def test_a_signed_file_stays_signed(workspace: Workspace) -> None:
    file = remotes_file(workspace)
    file.add("gpu", {"url": URL})
    file.add("cpu", {"url": URL})
    file.remove("gpu")

    assert file.path.read_text(encoding="utf-8").startswith("# rye:signed:")
    assert names(workspace) == ("cpu",)


def test_without_a_key_a_new_file_is_unsigned(workspace: Workspace) -> None:
    file = remotes_file(workspace, has_key=False)
    file.add("gpu", {"url": URL})

    assert file.path.read_text(encoding="utf-8").startswith("version:")


def test_a_hand_written_file_is_not_signed(workspace: Workspace) -> None:
    path = workspace.user.write(f"config/{CONFIG_PATH}", "remotes:\n  old: {url: https://x}\n")

    remotes_file(workspace).add("gpu", {"url": URL})

    assert path.read_text(encoding="utf-8").startswith("remotes:")
    assert names(workspace) == ("gpu", "old")


def test_a_changed_file_is_not_signed_again(workspace: Workspace) -> None:
    file = remotes_file(workspace)
    file.add("gpu", {"url": URL})
    changed = file.path.read_text(encoding="utf-8").replace("gpu.example", "evil.example")
    file.path.write_text(changed, encoding="utf-8")

    with pytest.raises(IntegrityError):
        remotes_file(workspace).add("cpu", {"url": URL})

    assert file.path.read_text(encoding="utf-8") == changed


def test_an_existing_remote_is_replaced_only_on_request(workspace: Workspace) -> None:
    file = remotes_file(workspace)
    file.add("gpu", {"url": URL})

    with pytest.raises(RyeError, check=coded("CONFLICT")) as error:
        file.add("gpu", {"url": "https://other.example"})
    file.add("gpu", {"url": "https://other.example"}, replace=True)

    assert str(error.value) == f"{file.path}: remote gpu is already there"
    found = read_remotes(workspace.rye().config.layers(CONFIG_PATH), {})
    assert found.resolve("gpu").url == "https://other.example"


def test_an_unknown_remote_cannot_be_removed(workspace: Workspace) -> None:
    with pytest.raises(RemoteNotFoundError):
        remotes_file(workspace).remove("gpu")


@pytest.mark.parametrize(
    "settings", [{"url": "gpu"}, {"url": URL, "node_id": "x"}, {"url": URL, "key_env": "a-b"}]
)
def test_an_invalid_remote_is_not_written(
    workspace: Workspace, settings: dict[str, object]
) -> None:
    file = remotes_file(workspace)

    with pytest.raises(RemoteConfigError):
        file.add("gpu", settings)

    assert not file.path.exists()


# --- the text ---------------------------------------------------------------------------------

BY_HAND = """\
# mine
remotes:   # all of them
    # the fast one
    gpu:
        url: "https://gpu.example"   # rented
        # by the hour

    'cpu':
        url: https://cpu.example
# behind
other: 1
"""


def test_text_around_an_entry_is_kept() -> None:
    assert with_remote(BY_HAND, "new", {"url": URL}) == BY_HAND.replace(
        "all of them\n", 'all of them\n    new:\n      url: "https://gpu.example"\n'
    )
    assert without_remote(BY_HAND, "cpu") == BY_HAND.replace(
        "    'cpu':\n        url: https://cpu.example\n", ""
    )


def test_an_entry_is_replaced_where_it_stands() -> None:
    text = with_remote(BY_HAND, "gpu", {"url": "https://new.example"})

    assert text.index("gpu:") < text.index("'cpu':")
    assert parse_yaml(text, "x")["remotes"]["gpu"] == {"url": "https://new.example"}
    assert "# the fast one" in text


@pytest.mark.parametrize(
    "text",
    ["a: 1\n", "remotes:\n", "remotes: {}\n", "remotes: {} # none\nb: 2\n", "remotes: null\n"],
)
def test_the_first_entry_is_inserted_in_the_right_place(text: str) -> None:
    added = with_remote(text, "gpu", {"url": URL})

    assert parse_yaml(added, "x")["remotes"] == {"gpu": {"url": URL}}


@pytest.mark.parametrize("text", ["remotes: {gpu: {url: a}}\n", '{"remotes": {"gpu": {}}}\n'])
def test_a_file_that_cannot_be_edited_is_refused(text: str) -> None:
    with pytest.raises(RemoteConfigError) as error:
        with_remote(text, "cpu", {"url": URL})

    assert error.value.hint == "the file is in a form that only you can edit; nothing was changed"


remote_names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,5}", fullmatch=True)


@given(st.lists(remote_names, max_size=6), st.sets(st.integers(0, 5)))
def test_any_names_can_be_added_and_removed(added: list[str], removed: set[int]) -> None:
    text, expected = NEW_TEXT, dict[str, object]()
    for number, name in enumerate(["on", "1", *added]):
        settings: dict[str, object] = {"url": f"https://{number}.example", "timeout": number}
        text, expected = with_remote(text, name, settings), {**expected, name: settings}
    for number in removed:
        name = added[number] if number < len(added) else ""
        if name in expected:
            text = without_remote(text, name)
            del expected[name]

    assert parse_yaml(text, "x")["remotes"] == expected
