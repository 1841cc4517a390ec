from email.message import Message

import pytest

from packing.contents import licence_of


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License-Expression": "Apache-2.0 OR MIT", "License": "old words"}, "Apache-2.0 OR MIT"),
        ({"License": "MIT"}, "MIT"),
        ({}, "NOASSERTION"),
    ],
)
def test_a_licence_is_taken_from_the_metadata(fields: dict[str, str], licence: str) -> None:
    metadata = Message()
    for name, value in fields.items():
        metadata[name] = value

    assert licence_of(metadata) == licence
