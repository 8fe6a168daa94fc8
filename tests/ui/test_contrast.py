"""The ratios of the tokens, computed from the style sheet itself (WCAG 2 relative luminance)."""

import re
from pathlib import Path

import pytest
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


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("ink", "ground"), [(ink, ground) for ink in ON_SURFACES for ground in SURFACES] + ON_TINT
)
def test_text_can_be_read(ink: str, ground: str, theme: int) -> None:
    assert ratio(COLOURS[ink][theme], COLOURS[ground][theme]) >= 4.5


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", SURFACES)
def test_edges_that_carry_meaning_can_be_seen(ground: str, theme: int) -> None:
    assert ratio(COLOURS["control"][theme], COLOURS[ground][theme]) >= 3
