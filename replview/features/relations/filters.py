"""What the address of the relations page asks for."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest

from replview.ui.params import Params

SORTS = {"last": "Last change", "name": "Name", "changes": "Changes", "versions": "Versions"}
RANGES = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7),
          "30d": timedelta(days=30)}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the address asks for; anything else is as if not asked."""

    q: str = ""
    sort: str = "last"
    warnings: bool = False
    range: str = "24h"
    after: str = ""

    def query(self, **changed: Any) -> str:
        """The part of the address behind the slot's name, with some of it changed."""
        asked = replace(self, **{"after": "", **changed})
        words = {
            "q": asked.q,
            "sort": asked.sort if asked.sort != "last" else "",
            "with": "warnings" if asked.warnings else "",
            "range": asked.range if asked.range != "24h" else "",
            "after": asked.after,
        }
        return urlencode({name: word for name, word in words.items() if word})


def wanted_of(request: HttpRequest) -> Wanted:
    """Read the address; whatever cannot be meant is left out."""
    asked = Params(request.GET)
    return Wanted(
        q=asked.text("q"),
        sort=asked.choice("sort", SORTS, "last"),
        warnings=asked.flag("with", "warnings"),
        range=asked.choice("range", RANGES, "24h"),
        after=asked.text("after", 300, strip=False),
    )
