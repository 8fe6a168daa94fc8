"""Binary values of network addresses. Source: PostgreSQL, network.c, mac8.c.

Every function takes a value's bytes and raises ``ValueError``, ``IndexError``
or ``struct.error`` if they are not a value of its type.
"""

import struct
from ipaddress import IPv4Address

from decoder.binary.scalars import exactly

_INET, _INET6 = 2, 3


def inet_text(raw: bytes) -> str:
    """Return an inet or cidr; an inet of a single host shows no prefix length."""
    family, bits, is_cidr, size = raw[:4]
    address = exactly(raw, 4 + size)[4:]
    if (family, size) not in ((_INET, 4), (_INET6, 16)) or bits > size * 8:
        raise ValueError("inet")
    text = str(IPv4Address(address)) if family == _INET else _ipv6_text(address)
    return text if bits == size * 8 and not is_cidr else f"{text}/{bits}"


def _ipv6_text(address: bytes) -> str:
    """Return an IPv6 address as ``inet_net_ntop()``: longest zero run short, IPv4 with dots."""
    words = struct.unpack(">8H", address)
    start, length = 0, 0
    for first in range(8):
        end = first
        while end < 8 and words[end] == 0:
            end += 1
        if end - first > length:
            start, length = first, end - first
    if length < 2:
        return ":".join(f"{word:x}" for word in words)
    dotted = start == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF))
    tail = [f"{word:x}" for word in words[start + length :]]
    if dotted:
        tail[-2:] = [str(IPv4Address(address[12:]))]
    return f"{':'.join(f'{word:x}' for word in words[:start])}::{':'.join(tail)}"


def macaddr_text(raw: bytes) -> str:
    """Return a MAC address as six hexadecimal pairs."""
    return exactly(raw, 6).hex(":")


def macaddr8_text(raw: bytes) -> str:
    """Return a MAC address as eight hexadecimal pairs."""
    return exactly(raw, 8).hex(":")
