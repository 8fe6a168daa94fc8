"""Looks at what a source's slots publish: kept where something differs from the last look."""

import datetime as dt

from replview.catalog.connections import reading
from replview.catalog.problems import SourceTrouble
from replview.catalog.publications import read_publications
from replview.catalog.published import publication_facts, published_by
from replview.catalog.tables import read_tables
from replview.store.dsn import DSNError, full_conninfo
from replview.store.models import Slot, Source
from replview.store.publication_looks import store_publication_look
from replview.store.secrets import SecretKeyChanged

#: A source that has not told everything by then is cut off.
DEADLINE_SECONDS = 10.0


def look_at_publications(source: Source) -> int:
    """Look once for all slots of a source that read publications; returns how many looks told
    something new. A source that cannot be reached is left to ``sample``, which says so.
    """
    slots = [
        slot
        for slot in Slot.objects.filter(source=source).exclude(desired=Slot.Desired.REMOVING)
        if slot.plugin == "pgoutput"
    ]
    if not slots:
        return 0
    try:
        with reading(full_conninfo(source), deadline_seconds=DEADLINE_SECONDS) as connection:
            publications = read_publications(connection)
            tables = read_tables(connection)
            version = connection.info.server_version
    except (SourceTrouble, DSNError, SecretKeyChanged):
        return 0
    # What is kept holds from now on: a look errs to the later moment.
    now = dt.datetime.now(dt.UTC)
    new = 0
    for slot in slots:
        chosen = [p for p in publications if p.name in slot.publications]
        facts = publication_facts(chosen, published_by(chosen, tables), tables, version)
        new += store_publication_look(slot, facts, now)
    return new
