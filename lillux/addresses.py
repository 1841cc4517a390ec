"""Machines that an address of the internet means: this one, its link, or any other.

One rule for all that must not lead programs of others to this machine: the supervisor of their
sockets (`lillux.supervisor`) and the forwarder of their requests (`lillux.http.forwarder`).
"""

from collections.abc import Iterator
from functools import cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

from lillux.seccomp import Addresses, Reach

Ip = IPv4Address | IPv6Address

_METADATA = frozenset({ip_address("fd00:ec2::254"), ip_address("100.100.100.200")})
_OF_THIS_NETWORK = ip_network("0.0.0.0/8")
_NAT64, _LOCAL_NAT64 = IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48")
_SIX_TO_FOUR, _COMPATIBLE = IPv6Network("2002::/16"), IPv6Network("::/96")
_TUNNELS = frozenset({0x0000_5EFE, 0x0200_5EFE})  # ISATAP, in the third quarter of an address
_DISCARD_PORT, DNS_PORT = 9, 53


def allows(addresses: Addresses, call: str, ip: Ip, port: int) -> bool:
    """True if a socket may be connected or bound to an address, or may send to it."""
    match addresses.reach:
        case Reach.PROXY:
            return call == "connect" and is_this_machine(ip) and port == addresses.port
        case Reach.LOOPBACK:
            return is_this_machine(ip)
        case _:
            return call in {"bind", "listen"} or is_name_server(ip, port) or not is_near(ip)


def embedded(ip: Ip) -> Iterator[IPv4Address]:
    """The addresses that an IPv6 address carries: something on the way may lead to these."""
    if isinstance(ip, IPv4Address):
        return
    low = IPv4Address(int(ip) & 0xFFFF_FFFF)
    if ip.ipv4_mapped or ip in _NAT64 or ip in _LOCAL_NAT64 or ip in _COMPATIBLE:
        yield low
    if ip in _LOCAL_NAT64:  # with a prefix of 48 bits it stands behind that, around a byte
        number = int(ip)
        yield IPv4Address((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF)
    if ip in _SIX_TO_FOUR and ip.sixtofour:
        yield ip.sixtofour
    if ip.teredo:
        yield from ip.teredo
    if int(ip) >> 32 & 0xFFFF_FFFF in _TUNNELS:
        yield low


def is_this_machine(ip: Ip) -> bool:
    """True if an address is loopback, also in the form of IPv6 that carries IPv4."""
    plain = (ip.ipv4_mapped or ip) if isinstance(ip, IPv6Address) else ip
    return plain.is_loopback


def is_near(ip: Ip) -> bool:
    """True if an address means this machine, its link, all of these, or metadata of a cloud."""
    if isinstance(ip, IPv6Address) and ip.scope_id:  # the zone says by which link, not where
        ip = IPv6Address(int(ip))
    if ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast:
        return True
    if isinstance(ip, IPv4Address):
        if ip in _OF_THIS_NETWORK or int(ip) == 0xFFFF_FFFF:  # noqa: PLR2004 - broadcast
            return True
    elif ip.is_site_local or any(is_near(one) for one in embedded(ip)):
        return True
    return ip in _METADATA or _is_own(ip)


def is_public(ip: Ip) -> bool:
    """True if an address is public, also when it is embedded in another form of address."""
    inner = tuple(embedded(ip))
    if inner:
        return all(map(is_public, inner))
    return ip.is_global and not (ip.is_multicast or ip.is_reserved)


def _is_own(ip: Ip) -> bool:
    """True if an address is one of an interface of this machine, or of all on a link.

    To what is its own, a machine would speak from that very address. Nothing is sent to find out.
    """
    import socket

    family = socket.AF_INET if isinstance(ip, IPv4Address) else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((str(ip), _DISCARD_PORT))
            return ip_address(str(probe.getsockname()[0]).partition("%")[0]) == ip
    except PermissionError:  # of a broadcast
        return True
    except OSError:  # no way leads there
        return False


def is_name_server(ip: Ip, port: int) -> bool:
    """True if names are resolved there, as this machine is configured: often it is near."""
    return port == DNS_PORT and ip in _name_servers()


@cache
def _name_servers() -> frozenset[Ip]:
    found = set()
    try:
        lines = Path("/etc/resolv.conf").read_text("utf-8", "replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        words = line.split()
        if words[:1] == ["nameserver"] and len(words) > 1:
            try:
                found.add(ip_address(words[1].partition("%")[0]))
            except ValueError:
                continue
    return frozenset(found)
