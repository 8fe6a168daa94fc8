"""Writing samples of slots."""

from collections.abc import Sequence

from django.db import IntegrityError

from replview.store.models import SlotSample
from replview.store.tidy import make_partitions


def store_samples(samples: Sequence[SlotSample]) -> None:
    """Insert; a day without a partition gets one first (beat was away over midnight)."""
    try:
        SlotSample.objects.bulk_create(samples)
    except IntegrityError:
        make_partitions()
        SlotSample.objects.bulk_create(samples)
