"""Binary geometric and network values. Source: PostgreSQL, geo_ops.c, network.c, mac8.c."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address

from decoder.binary.floats import number_text
from decoder.binary.scalars import exactly

_INET, _INET6 = 2, 3


def _numbers(raw: bytes, count: int) -> list[str]:
    return [number_text(number) for number in struct.unpack(f">{count}d", raw)]


def _points(raw: bytes, count: int) -> str:
    numbers = _numbers(raw, 2 * count)
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return ",".join(f"({x},{y})" for x, y in pairs)


def point_text(raw: bytes) -> str:
    return _points(raw, 1)


def lseg_text(raw: bytes) -> str:
    return f"[{_points(raw, 2)}]"


def box_text(raw: bytes) -> str:
    return _points(raw, 2)


def line_text(raw: bytes) -> str:
    return "{" + ",".join(_numbers(raw, 3)) + "}"


def circle_text(raw: bytes) -> str:
    return f"<{_points(exactly(raw, 24)[:16], 1)},{_numbers(raw[16:], 1)[0]}>"


def path_text(raw: bytes) -> str:
    closed, count = struct.unpack_from(">?i", raw)
    points = _points(exactly(raw, 5 + 16 * count)[5:], count)
    return f"({points})" if closed else f"[{points}]"


def polygon_text(raw: bytes) -> str:
    (count,) = struct.unpack_from(">i", raw)
    return f"({_points(exactly(raw, 4 + 16 * count)[4:], count)})"


def inet_text(raw: bytes) -> str:
    """inet and cidr; an inet of a single host shows no prefix length."""
    family, bits, is_cidr, size = raw[:4]
    address = exactly(raw, 4 + size)[4:]
    if (family, size) not in ((_INET, 4), (_INET6, 16)) or bits > size * 8:
        raise ValueError("inet")
    text = str(IPv4Address(address)) if family == _INET else _ipv6_text(address)
    return text if bits == size * 8 and not is_cidr else f"{text}/{bits}"


def _ipv6_text(address: bytes) -> str:
    """As ``inet_net_ntop()`` writes it: the longest run of zeros short, IPv4 with dots."""
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
    return exactly(raw, 6).hex(":")


def macaddr8_text(raw: bytes) -> str:
    return exactly(raw, 8).hex(":")
