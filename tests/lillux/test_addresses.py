"""Which machines an address means, in every form that it can be written in."""

import socket
from ipaddress import ip_address

import pytest

from lillux.addresses import allows, is_near, is_public, is_this_machine
from lillux.seccomp import Addresses, Reach

NEAR = (
    *("127.0.0.1", "127.8.9.1", "0.0.0.0", "0.1.2.3", "169.254.169.254", "255.255.255.255"),  # noqa: S104
    *("224.0.0.1", "100.100.100.200", "::", "::1", "fe80::1", "fe80::1%1", "ff02::1", "fec0::1"),
    *("fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1"),
    *("64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "64:ff9b:1:7f00:0:100::"),
    *("2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:7f00:1::", "2001:0:808:808::80ff:fffe"),
    *("2001:db8::5efe:7f00:1", "2001:db8::200:5efe:7f00:1", "::ffff:0.0.0.0", "::ffff:224.0.0.1"),
)
FAR = (
    *("8.8.8.8", "10.250.1.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"),
    *("2002:808:808::",),
)


@pytest.mark.parametrize("text", NEAR)
def test_an_address_of_the_machine_its_link_or_metadata_is_near(text: str) -> None:
    assert is_near(ip_address(text))
    assert not allows(Addresses(Reach.PUBLIC), "connect", ip_address(text), 80)
    assert not allows(Addresses(Reach.PUBLIC), "send", ip_address(text), 80)


@pytest.mark.parametrize("text", FAR)
def test_another_address_is_not_near(text: str) -> None:
    assert not is_near(ip_address(text))


def test_each_own_address_of_an_interface_is_near() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("8.8.8.8", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no way to other ones")
        own = ip_address(probe.getsockname()[0])

    assert is_near(own)
    assert is_near(ip_address(f"::ffff:{own}"))


def test_loopback_is_known_in_its_mapped_form() -> None:
    assert is_this_machine(ip_address("::ffff:127.0.0.1"))
    assert not is_this_machine(ip_address("::ffff:8.8.8.8"))


def test_an_address_that_carries_a_private_one_is_not_public() -> None:
    for text in (
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "2002:a00:1::",
        "2001:0:808:808::f5ff:fffe",
    ):
        assert not is_public(ip_address(text))
    assert is_public(ip_address("64:ff9b::808:808"))
