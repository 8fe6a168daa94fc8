"""Quote names, texts and addresses for Python, SQL and Spark."""

import datetime as dt
import re
from collections.abc import Sequence
from urllib.parse import parse_qsl


def py(text: str) -> str:
    """Return a Python string, in double quotes if possible."""
    shown = repr(text)
    plain = shown.startswith("'") and '"' not in text and "'" not in text
    return f'"{shown[1:-1]}"' if plain else shown


def py_list(texts: Sequence[str]) -> str:
    """Return a Python list of strings."""
    return f"[{', '.join(py(each) for each in texts)}]"


def literal(text: str) -> str:
    """Return a string of standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def spark_literal(text: str) -> str:
    """Return a string of Spark's SQL, which has escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def shared_literal(text: str) -> str:
    """Return a string that Spark's SQL and standard SQL read alike.

    Characters that one of them, or ``str.format``, gives another meaning are written by number.
    """
    special = re.compile(r"['\\\\${}]")
    return "('" + special.sub(lambda found: f"' || chr({ord(found[0])}) || '", text) + "')"


def timestamp(moment: dt.datetime) -> str:
    """Return a time for a session in UTC."""
    text = moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
    return f"TIMESTAMP '{text}'"


def date(moment: dt.datetime) -> str:
    """Return the day of a time in UTC."""
    return f"DATE '{moment.astimezone(dt.UTC).date().isoformat()}'"


def double(name: str) -> str:
    """Return a quoted name of standard SQL."""
    return '"' + name.replace('"', '""') + '"'


def tick(name: str) -> str:
    """Return a quoted name of Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


#: Spark's names of schemes that pyarrow names otherwise.
_SPARK_SCHEMES = {"s3": "s3a", "s3n": "s3a", "gcs": "gs"}


def spark_address(url: str) -> str:
    """Return a folder's path or URL as Spark spells it, without options."""
    scheme, between, rest = url.partition("://")
    if not between:
        return f"file://{url.rstrip('/')}"
    return f"{_SPARK_SCHEMES.get(scheme, scheme)}://{rest.partition('?')[0].rstrip('/')}"


def address_options(url: str) -> dict[str, str]:
    """Return the options of an S3 address, as pyarrow names them; empty for any other address."""
    return dict(parse_qsl(url.partition("?")[2])) if url.startswith("s3") else {}


def spark_settings(url: str) -> dict[str, str]:
    """Return the Hadoop settings by which Spark finds the object store of an address."""
    found = address_options(url)
    server = found.get("endpoint_override")
    values = {
        "fs.s3a.endpoint": server and f"{found.get('scheme', 'https')}://{server}",
        "fs.s3a.endpoint.region": found.get("region"),
        "fs.s3a.path.style.access": server and "true",
    }
    return {name: text for name, text in values.items() if text}
