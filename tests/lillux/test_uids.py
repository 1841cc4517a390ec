import os
import sys
from pathlib import Path

import pytest

from lillux.namespaces import closed_folder
from lillux.uids import UidRange, Uids, UidsInUseError, end_all_of, obstacle_to
from rye_services.settings import DEFAULT_UIDS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="user ids of Linux")

ALL, NONE = "CapEff:\t000001ffffffffff\n", "CapEff:\t0000000000000000\n"
MAP = "         0          0 4294967295\n"


def test_a_number_is_given_to_one_at_a_time(tmp_path: Path) -> None:
    numbers = UidRange(200_000, 200_001)
    one, other = Uids(numbers, tmp_path), Uids(numbers, tmp_path)

    with one.lease() as first, other.lease() as second:
        assert {first, second} == {200_000, 200_001}
        with pytest.raises(UidsInUseError) as error, other.lease():
            pass
    assert str(error.value) == "all 2 user ids 200000-200001 are in use"


def test_a_preferred_number_is_given_if_it_is_free(tmp_path: Path) -> None:
    uids = Uids(UidRange(200_000, 299_999), tmp_path)

    with uids.lease(234_567) as first, uids.lease(234_567) as second:
        assert first == 234_567
        assert second != 234_567
    with uids.lease(234_567) as again, uids.lease(5) as other:
        assert again == 234_567
        assert 200_000 <= other <= 299_999


def machine(folder: Path, *, status: str = ALL, users: str = MAP, groups: str = MAP) -> Path:
    """The files of the system that say what a process may."""
    for name, text in (("status", status), ("uid_map", users), ("gid_map", groups)):
        (folder / name).write_text(text, encoding="ascii")
    return folder / "status"


@pytest.mark.skipif(os.geteuid() != 0, reason="as root")
def test_what_a_machine_does_not_give_is_named(tmp_path: Path) -> None:
    numbers, few = UidRange(3_000_000, 3_000_999), "0 100000 65536\n"

    assert obstacle_to(numbers, status=machine(tmp_path)) == ""
    assert obstacle_to(numbers, status=machine(tmp_path, status=NONE)) == "root has no CAP_CHOWN"
    assert obstacle_to(numbers, status=machine(tmp_path, users=few)) == (
        f"3000000-3000999 is outside of {tmp_path}/uid_map"
    )
    assert obstacle_to(numbers, status=machine(tmp_path, groups=few)) == (
        f"3000000-3000999 is outside of {tmp_path}/gid_map"
    )
    assert obstacle_to(UidRange(0, 10), status=machine(tmp_path)) == (
        "the user root has an id of 0-10"
    )
    assert obstacle_to(numbers, status=tmp_path / "none") == "only Linux is supported"


@pytest.mark.skipif(os.geteuid() == 0, reason="as another user than root")
def test_another_user_than_root_gives_no_numbers(tmp_path: Path) -> None:
    assert obstacle_to(DEFAULT_UIDS, status=machine(tmp_path)) == "it takes root"


def test_the_first_folder_that_a_user_cannot_go_through_is_found(tmp_path: Path) -> None:
    inner = tmp_path / "open" / "closed" / "inner"
    inner.mkdir(parents=True)
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            assert closed_folder(inner / "any", 200_000) is not None
            return
    inner.parent.chmod(0o700)

    assert closed_folder(inner / "any", 200_000) == inner.parent
    assert closed_folder(inner / "any", os.geteuid()) is None


@pytest.mark.skipif(obstacle_to(DEFAULT_UIDS) != "", reason="this process gives no user ids")
def test_every_process_of_a_number_is_ended_and_no_other() -> None:
    ended, kept = DEFAULT_UIDS.last + 1, DEFAULT_UIDS.last + 2
    children = [_waits_as(uid) for uid in (ended, ended, kept)]

    assert end_all_of(ended, 5.0)

    assert [_is_there(pid) for pid in children] == [False, False, True]
    assert end_all_of(kept, 5.0)
    assert not _is_there(children[2])


def _waits_as(uid: int) -> int:
    """The number of a process of a user, once it is theirs."""
    import signal

    from lillux.uids import become

    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        become(uid)
        os.write(writing, b"!")
        while True:
            signal.pause()
    os.read(reading, 1)
    os.close(reading)
    os.close(writing)
    return pid


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
