"""The ratios of the tokens, computed from the style sheet itself (WCAG 2 relative luminance)."""

import re
from pathlib import Path

from django.conf import settings

TOKENS = Path(settings.BASE_DIR, "static/css/ui/tokens.css").read_text()
COLOUR = re.compile(r"--([a-z0-9-]+): light-dark\((#[0-9A-F]{6}), (#[0-9A-F]{6})\)")
COLOURS = {name: pair for name, *pair in COLOUR.findall(TOKENS)}

SURFACES = ("bg", "surface", "sunken", "hover", "selected")
#: Text and where it stands, besides the surfaces.
ON_TINT = [(name, f"{name}-bg") for name in ("ins", "upd", "del", "trn", "msg")] + [
    ("ins", "ins-row"), ("del", "del-row"), ("on-accent", "accent"), ("text", "accent-bg"),
]  # fmt: skip
ON_SURFACES = ("text", "text-2", "text-3", "accent", "ins", "upd", "del", "trn", "msg")


def luminance(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def ratio(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def below(least: float, pairs: list[tuple[str, str]]) -> list[str]:
    """Return the pairs of colours, by theme, whose ratio is less than ``least``."""
    ratios = [
        (f"{ink} on {ground}, {theme}", ratio(COLOURS[ink][number], COLOURS[ground][number]))
        for ink, ground in pairs
        for number, theme in enumerate(("light", "dark"))
    ]
    return [f"{name}: {value:.2f}" for name, value in ratios if value < least]


def test_text_can_be_read() -> None:
    pairs = [(ink, ground) for ink in ON_SURFACES for ground in SURFACES] + ON_TINT
    too_low = below(4.5, pairs)
    assert not too_low, "\n".join(too_low)


def test_edges_that_carry_meaning_can_be_seen() -> None:
    too_low = below(3, [("control", ground) for ground in SURFACES])
    assert not too_low, "\n".join(too_low)
