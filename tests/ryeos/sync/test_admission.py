"""Which paths a manifest may have, when very many are verified."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.sync.admission import problem_of, why_never, why_never_below
from ryeos.sync.paths import fold

NAMES = st.sampled_from(
    [
        *("a", "A.py", ".git", ".GIT", "git~1", ".venv", "venv", "bin", "node_modules", "NODE_M~1"),
        *(".env", ".ENV", ".env.local", "x.secret", "X.SECRETS", ".envrc", ".ENVRC", "envrc~1"),
        *("private_key.pem", "PRIVATE_KEY.PEM", "privat~1.pem", "box_key.pem", "e\u0301", "\u00e9"),
    ]
)
FOLDERS = st.sampled_from(["", ".ai/config/keys/signing/", ".AI/config/remotes/pins/", "src/"])


@pytest.mark.property
@given(folder=FOLDERS, names=st.lists(NAMES, min_size=1, max_size=3))
def test_files_that_are_never_synced_are_refused_in_any_spelling(
    folder: str, names: list[str]
) -> None:
    path = folder + "/".join(names)

    for is_item in (True, False):
        problem = why_never(path, is_item=is_item)
        assert problem or not why_never(fold(path), is_item=is_item)
        above = path.rpartition("/")[0]
        assert problem or not above or not why_never_below(above, is_item=is_item)


@pytest.mark.parametrize(
    "path", [".git", "a/.GIT", "git~1/config", "src/.ENVRC", "src/envrc~1", "a/PRIVATE_KEY.PEM"]
)
def test_another_spelling_of_a_path_is_refused(path: str) -> None:
    assert problem_of(path, is_item=False)


def test_long_paths_are_not_cached() -> None:
    tracemalloc.start()
    try:
        for number in range(50):
            assert why_never(f"{'n' * 1_000_000}{number}/name", is_item=False) == ""
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 1_000_000
