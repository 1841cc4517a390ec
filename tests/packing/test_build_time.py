from datetime import UTC, datetime

import pytest

from packing import BuildError
from packing.build_time import BuildTime, build_time


def test_the_time_of_a_build_can_be_given() -> None:
    time = build_time({"SOURCE_DATE_EPOCH": "1767225600"})

    assert time.now() == datetime(2026, 1, 1, tzinfo=UTC)
    assert time.zip_time() == (2026, 1, 1, 0, 0, 0)


def test_without_a_given_one_it_is_now() -> None:
    before = datetime.now(UTC).replace(microsecond=0)

    time = build_time({"SOURCE_DATE_EPOCH": ""})

    assert before <= time.now() <= datetime.now(UTC)


@pytest.mark.parametrize("text", ["yesterday", "-1", "0", "315532799", "4354819199", "1.5", "٣"])
def test_a_time_that_a_zip_file_cannot_hold_is_refused(text: str) -> None:
    with pytest.raises(BuildError) as error:
        build_time({"SOURCE_DATE_EPOCH": text})

    assert str(error.value) == (
        f"SOURCE_DATE_EPOCH: expected seconds from 1970, in 1980 or later, found {text!r}"
    )


@pytest.mark.parametrize("epoch", [315532800, 4354819198])
def test_the_first_and_the_last_second_of_zip_files_are_accepted(epoch: int) -> None:
    assert build_time({"SOURCE_DATE_EPOCH": str(epoch)}) == BuildTime(epoch)
