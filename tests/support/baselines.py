"""Baselines in a test: asked for, claimed and read at once, against a real source and store."""

import threading

from replview.jobs import baselines
from replview.receiver.baselines.baseline import Done, read_baseline
from replview.store.connecting import connect_store
from replview.store.models import Baseline, Transaction
from tests.support.recording import Recording


def asked(recording: Recording, table: str, **more) -> Baseline:
    """A baseline of ``schema.table`` that is asked for."""
    schema, _, name = table.rpartition(".")
    recording.slot.refresh_from_db()
    return baselines.request(recording.slot, schema or "public", name, by="test", **more)


def begun(baseline: Baseline) -> Baseline:
    """Claim this baseline, whatever else waits, and return it."""
    Baseline.objects.filter(pk=baseline.pk).update(state="requested")
    others = Baseline.objects.filter(state="requested").exclude(pk=baseline.pk)
    waiting = list(others.values_list("pk", flat=True))
    others.update(state="cancelled")
    claim = baselines.claim()
    Baseline.objects.filter(pk__in=waiting).update(state="requested")
    assert claim is not None
    assert claim.pk == baseline.pk
    return claim


def read(claim: Baseline, recording: Recording, stop: threading.Event | None = None) -> Done:
    """Read what was claimed, on connections of its own."""
    dsn = recording.dsn or recording.source.dsn
    with connect_store("replview baseline") as store:
        return read_baseline(claim, store, dsn, stop or threading.Event())


def take(recording: Recording, table: str, **more) -> Transaction:
    """Ask for a baseline, read it, and find its transaction."""
    baseline = asked(recording, table, **more)
    read(begun(baseline), recording)
    baseline.refresh_from_db()
    assert baseline.state == "done"
    return Transaction.objects.get(pk=baseline.transaction_id)
