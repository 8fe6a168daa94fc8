"""Binary values of geometric types. Source: PostgreSQL, geo_ops.c.

Every function takes a value's bytes and raises ``ValueError``, ``IndexError``
or ``struct.error`` if they are not a value of its type.
"""

import struct

from decoder.binary.scalars import exactly, number_text


def _numbers(raw: bytes, count: int) -> list[str]:
    return [number_text(number) for number in struct.unpack(f">{count}d", raw)]


def _points(raw: bytes, count: int) -> str:
    numbers = _numbers(raw, 2 * count)
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return ",".join(f"({x},{y})" for x, y in pairs)


def point_text(raw: bytes) -> str:
    """Return a point as ``(x,y)``."""
    return _points(raw, 1)


def lseg_text(raw: bytes) -> str:
    """Return a line segment as ``[(x1,y1),(x2,y2)]``."""
    return f"[{_points(raw, 2)}]"


def box_text(raw: bytes) -> str:
    """Return the opposite corners of a box as ``(x1,y1),(x2,y2)``."""
    return _points(raw, 2)


def line_text(raw: bytes) -> str:
    """Return a line as ``{A,B,C}``, the coefficients of its equation."""
    return "{" + ",".join(_numbers(raw, 3)) + "}"


def circle_text(raw: bytes) -> str:
    """Return a circle as ``<(x,y),radius>``."""
    return f"<{_points(exactly(raw, 24)[:16], 1)},{_numbers(raw[16:], 1)[0]}>"


def path_text(raw: bytes) -> str:
    """Return a path in parentheses if it is closed, else in square brackets."""
    closed, count = struct.unpack_from(">?i", raw)
    points = _points(exactly(raw, 5 + 16 * count)[5:], count)
    return f"({points})" if closed else f"[{points}]"


def polygon_text(raw: bytes) -> str:
    """Return the points of a polygon in parentheses."""
    (count,) = struct.unpack_from(">i", raw)
    return f"({_points(exactly(raw, 4 + 16 * count)[4:], count)})"
