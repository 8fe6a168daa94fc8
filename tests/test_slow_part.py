"""Every test named as slow exists: a renamed one would come back into the fast part."""

import re
from pathlib import Path

from tests.support.slow_part import LONG

ROOT = Path(__file__).resolve().parents[1]


def test_every_test_named_as_slow_is_there() -> None:
    for name in LONG:
        path, _, test = name.partition("::")
        assert re.search(rf"^(async )?def {test}", (ROOT / path).read_text(), re.MULTILINE), name
