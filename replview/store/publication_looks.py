"""What a slot's publications published, look by look: no stream says what it leaves out."""

import datetime as dt
import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from replview.store.models import PublicationLook, Slot


def digest_of(facts: Mapping[str, Any]) -> str:
    """SHA-256 by which two looks are told to have found the same."""
    return hashlib.sha256(orjson.dumps(facts, option=orjson.OPT_SORT_KEYS)).hexdigest()


def store_publication_look(slot: Slot, facts: Mapping[str, Any], at: dt.datetime) -> bool:
    """Keep what a look found: a new row where something differs; returns whether it did."""
    digest = digest_of(facts)
    latest = PublicationLook.objects.filter(slot=slot).order_by("-last_seen_at").only("digest")
    found = latest.first()
    if found is not None and found.digest == digest:
        PublicationLook.objects.filter(pk=found.pk).update(last_seen_at=at)
        return False
    PublicationLook.objects.create(
        slot=slot, first_seen_at=at, last_seen_at=at, digest=digest, facts=dict(facts)
    )
    return True


def latest_look(slot: Slot) -> PublicationLook | None:
    """What the publications published when last looked at; None: nobody has looked."""
    return PublicationLook.objects.filter(slot=slot).order_by("-last_seen_at").first()
