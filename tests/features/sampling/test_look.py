"""A look at a source: what holds it back, stored with every sample."""

import pytest
from django.db import connection

from replview.catalog import holders
from replview.store.dsn import set_dsn
from replview.store.models import Slot, Source, SourceLook
from replview.store.retention.tidy import make_partitions
from tests.support.sampling import sample_source

pytestmark = pytest.mark.django_db

PREPARE = "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION"


@pytest.fixture
def known(any_source) -> Source:
    make_partitions()
    any_source.run("CREATE TABLE t (n int)")
    any_source.create_slot("here")
    source = Source(name="known")
    set_dsn(source, any_source.dsn)
    source.save()
    Slot.objects.create(source=source, name="here")
    return source


def _gids(look: SourceLook, database: str) -> list[str]:
    return [row["gid"] for row in look.prepared if row["database"] == database]


def test_a_look_is_stored_with_each_sample(known: Source, any_source) -> None:
    any_source.run(f"{PREPARE} 'first'")

    assert sample_source(known) is None

    look = SourceLook.objects.get(source=known)
    assert _gids(look, any_source.name) == ["first"]
    assert look.prepared_limit is None
    here = look.holders["slots"]["here"]
    assert here["ours"] is True
    assert here["database"] == any_source.name
    assert here.get("stream_bytes") == (0 if any_source.version >= 14 else None)
    decoding_memory = 64 * 1024 if any_source.version >= 13 else None
    assert look.holders["logical_decoding_work_mem_bytes"] == decoding_memory
    assert look.holders["next_xid"] > 0


def test_the_list_of_prepared_is_written_only_when_it_changes(known: Source, any_source) -> None:
    any_source.run(f"{PREPARE} 'first'")
    sample_source(known)
    first = SourceLook.objects.get(source=known)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE source_look SET prepared = '[\"untouched\"]'")

    sample_source(known)
    again = SourceLook.objects.get(source=known)
    assert again.prepared == ["untouched"]
    assert again.looked_at > first.looked_at

    any_source.run("COMMIT PREPARED 'first'")
    sample_source(known)
    assert _gids(SourceLook.objects.get(source=known), any_source.name) == []


def test_a_list_that_is_too_long_is_cut_and_says_so(
    known: Source, any_source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holders, "PREPARED_LIMIT", 2)
    any_source.run(*(f"{PREPARE} 'gid {number}'" for number in range(3)))

    sample_source(known)

    look = SourceLook.objects.get(source=known)
    assert (len(look.prepared), look.prepared_limit) == (2, 2)
