"""Template tags of evidence: coverage, and the baselines of a slot."""

from datetime import datetime

from django import template
from django.urls import reverse
from django.utils.safestring import SafeString

from replview.store.models import Slot
from replview.store.read.coverage import Coverage
from replview.text.formats import day_second_words
from replview.ui import coverage_text
from replview.ui.component_html import time_html

register = template.Library()


@register.simple_tag
def coverage_words(coverage: Coverage) -> coverage_text.CoverageWords:
    """``{% coverage_words coverage as told %}``."""
    return coverage_text.coverage_words(coverage)


@register.simple_tag
def day_second(moment: datetime) -> SafeString:
    """``2 Nov 09:14:02``: the day first, because coverage spans days."""
    return time_html(moment, "second", day_second_words(moment))


@register.simple_tag
def baselines_url(slot: Slot) -> str:
    """The baselines of a slot."""
    return reverse("baselines", args=[slot.source.name, slot.name])
