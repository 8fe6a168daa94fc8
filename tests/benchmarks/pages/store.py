"""The store that is measured: an embedded server with a sane production's settings."""

import hashlib
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.store import migrations
from tests.benchmarks.pages.scale import Scale

#: A quarter of a small server's memory; everything else that matters as it comes.
STORE: dict[str, str | int] = {
    "shared_buffers": "1GB",
    "effective_cache_size": "3GB",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "30min",
    "random_page_cost": "1.1",
    "fsync": "off",
}
_DATABASE = "replview"


@contextmanager
def filled_store(folder: Path, scale: Scale, *, reuse: bool) -> Iterator[str]:
    """A started store with the record in it, Django set up for it; what was done, in words.

    ``reuse`` takes the one that was left in the folder, if it holds as much.
    """
    # No flushing: what is generated can be generated anew, and reading pages flushes nothing.
    server = EmbeddedPostgres(folder / "store", settings=STORE)
    mark = folder / "filled.json"
    wanted = {"changes": scale.changes, "tables": scale.tables, "made_by": _digest()}
    known = json.loads(mark.read_text()) if reuse and mark.exists() else {}
    if not wanted.items() <= known.items():
        mark.unlink(missing_ok=True)
        server.remove()
    with server:
        server.create_database(_DATABASE)
        _set_up_django(server.dsn(_DATABASE), folder)
        if mark.exists():
            yield f"a record generated before: {known['seconds']:.0f} s then"
            return
        started = time.monotonic()
        from tests.benchmarks.pages.filling import fill

        fill(server.dsn(_DATABASE), scale, folder / "generator.log")
        seconds = time.monotonic() - started
        mark.write_text(json.dumps({**wanted, "seconds": seconds}))
        yield f"generated in {seconds:.0f} s"


def _digest() -> str:
    """Return a digest of the code that made the record: the generator and the migrations."""
    made_by = [*Path(__file__).parent.glob("*.py"), *Path(migrations.__path__[0]).glob("*.py")]
    names = ["around", "filling", "people", "rows", "scale", "shared", "tables", "writing"]
    parts = [
        path.read_bytes()
        for path in sorted(made_by)
        if path.stem in names or path.parent.name == "migrations"
    ]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _set_up_django(url: str, folder: Path) -> None:
    os.environ.update({
        "REPLVIEW_STORE_URL": url,
        "REPLVIEW_DATA": str(folder),
        "REPLVIEW_SECRET_KEY": secrets.token_urlsafe(24),
        "REPLVIEW_LOG_LEVEL": "ERROR",
        "DJANGO_SETTINGS_MODULE": "replview.settings",
    })  # fmt: skip
    if "django.conf" in sys.modules and "replview.settings" in sys.modules:
        raise RuntimeError("the settings were read before the store was there")
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
