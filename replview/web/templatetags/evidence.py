"""Template tags of evidence: coverage, and the baselines of a slot."""

from datetime import datetime
from typing import Any

from django import template
from django.urls import reverse

from replview.store.coverage import Coverage
from replview.store.models import Slot
from replview.web import coverage_words as words

register = template.Library()


@register.simple_tag
def coverage_words(coverage: Coverage) -> words.CoverageWords:
    """``{% coverage_words coverage as told %}``."""
    return words.coverage_words(coverage)


@register.inclusion_tag("components/time.html")
def day_second(moment: datetime) -> dict[str, Any]:
    """``2 Nov 09:14:02``: the day first, because coverage spans days."""
    text = f"{moment.day} {moment:%b %H:%M:%S}"
    return {"iso": moment.isoformat(), "form": "second", "text": text}


@register.simple_tag
def baselines_url(slot: Slot) -> str:
    """The baselines of a slot."""
    return reverse("baselines", args=[slot.source.name, slot.name])
