"""``python -m replview.spark.artefact FOLDER`` builds the files for ``spark-submit``.

``replview-spark.zip`` (for ``--py-files``) has the decoder, ``replview.parquet``,
``replview.spark``, ``replview.store.read`` and the modules of ``replview.text`` and
``replview.runtime`` that they use; no Django. ``replview-spark.py`` is the program that
``spark-submit`` starts::

    spark-submit --master yarn --py-files replview-spark.zip replview-spark.py as-of --root s3://…

The cluster's Python needs pyspark, pyarrow and orjson; to read the store also psycopg and xxhash.
The output is reproducible.
"""

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

#: The folder of the sources, or the zip.
_ROOT = Path(__file__).parent.parent.parent
_PROGRAM = '''"""For spark-submit, with --py-files replview-spark.zip: one of replview's jobs."""

import sys

from replview.spark.__main__ import main

sys.exit(main())
'''
#: Single modules of packages that are not included as a whole.
_USED = (
    "replview/text/formats.py", "replview/text/problem.py", "replview/text/parsing.py",
    "replview/runtime/failpoints.py",
)  # fmt: skip
#: Time of all entries, for reproducible builds: the earliest that a zip can store.
_MOMENT = (1980, 1, 1, 0, 0, 0)


def build(folder: Path) -> tuple[Path, Path]:
    """Write both files into a folder; return the paths of zip and program."""
    folder.mkdir(parents=True, exist_ok=True)
    archive, program = folder / "replview-spark.zip", folder / "replview-spark.py"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, text in _contents():
            packed.writestr(zipfile.ZipInfo(name, _MOMENT), text, zipfile.ZIP_DEFLATED)
    program.write_text(_PROGRAM)
    return archive, program


def carried(folder: Path) -> Path:
    """Return the zip for other machines: the one in use, else one built in the folder."""
    return _ROOT if is_packed() else build(folder)[0]


def is_packed() -> bool:
    """Return whether this code is run from the zip."""
    return _ROOT.is_file()


def _contents() -> Iterator[tuple[str, bytes]]:
    # The project's own __init__ may import packages that a cluster lacks.
    yield "replview/__init__.py", b""
    yield "replview/store/__init__.py", b""
    yield "replview/text/__init__.py", b""
    yield "replview/runtime/__init__.py", b""
    for used in _USED:
        yield used, (_ROOT / used).read_bytes()
    for package in ("decoder", "replview/parquet", "replview/spark", "replview/store/read"):
        for path in sorted((_ROOT / package).rglob("*.py")):
            yield path.relative_to(_ROOT).as_posix(), path.read_bytes()
    # This makes ``python replview-spark.zip JOB …`` work too.
    yield "__main__.py", _PROGRAM.encode()


if __name__ == "__main__":
    for made in build(Path(sys.argv[1] if len(sys.argv) > 1 else "build")):
        print(made)
