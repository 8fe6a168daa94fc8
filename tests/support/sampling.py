"""One look at a source, stored at once, for tests that need what it tells."""

import time

from replview.catalog.connection_cache import KeptConnections
from replview.catalog.problems import SourceProblem
from replview.features.sampling.sample import read_source, store
from replview.store.models import Source


def sample_source(source: Source, kept: KeptConnections | None = None) -> SourceProblem | None:
    """Look at a source and store what it reported; returns what kept us from it, if anything.

    ``kept``: where its connection is kept for the next look; without, it is closed.
    """
    connections = kept or KeptConnections()
    began = time.monotonic()
    try:
        return store(source, read_source(source, connections), time.monotonic() - began)
    finally:
        if kept is None:
            connections.close()
