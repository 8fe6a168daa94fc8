"""A source's former names, under which its files lie, come from the slot's log."""

from importlib import import_module

from django.db import connection

from replview.access.withheld import slot_of_incarnation
from replview.acts.noting import log_slot
from replview.features.erasure.files import homes_of
from tests.support.history_rows import History

_migration = import_module("replview.store.migrations.0037_former_names_of_sources")


def test_former_names_are_found_where_the_sentence_alone_had_them(db) -> None:
    slot = History().slot
    log_slot(slot, "rename", "The source first is called second one now.", by="ann")
    log_slot(slot, "rename", "The source second one was renamed.", by="ann", former="second one")
    with connection.cursor() as cursor:
        cursor.execute(_migration._ADD)
    names = [slot.source.name, "first", "second one"]
    assert homes_of(slot) == [(name, slot.name) for name in names]
    assert slot_of_incarnation(f"first/{slot.name}-1") == slot
    assert slot_of_incarnation(f"third/{slot.name}-1") is None
