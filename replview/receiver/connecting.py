"""This module builds the connection strings of a receiver, and chooses the encoding of its text."""

from typing import Any

from django.conf import settings
from psycopg import conninfo as libpq

#: Single-byte encodings with unassigned bytes: PostgreSQL's name → Python's codec. The two agree on
#: every byte (PostgreSQL 18, Python 3.11).
WITH_HOLES = {
    "LATIN3": "iso8859-3",
    "ISO_8859_6": "iso8859-6",
    "ISO_8859_7": "iso8859-7",
    "ISO_8859_8": "iso8859-8",
    **{f"WIN{page}": f"cp{page}" for page in (874, *range(1250, 1256), 1257, 1258)},
}
#: The other encodings of a database: PostgreSQL's name → Python's codec. Python cannot read the
#: ones that are missing here (EUC_TW, PostgreSQL's EUC_JIS_2004, MULE_INTERNAL).
_OTHERS = {
    "UTF8": "utf-8",
    "SQL_ASCII": "utf-8",
    "EUC_CN": "gb2312",
    "EUC_JP": "euc_jp",
    "EUC_KR": "euc_kr",
    "ISO_8859_5": "iso8859-5",
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
    "WIN866": "cp866",
    "WIN1256": "cp1256",
    **{
        f"LATIN{number}": f"iso8859-{part}"
        for number, part in zip(
            (1, 2, 4, 5, 6, 7, 8, 9, 10), (1, 2, 4, 9, 10, 13, 14, 15, 16), strict=True
        )
    },
}
#: Settings that fix the text form of values: the output plugin uses those of the walsender's
#: session, not those of the session that wrote the row.
TEXT_SETTINGS = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "timezone": "UTC",
}
#: Keepalive settings for a connection that only reads, so that it detects a host that is gone.
PROBES: dict[str, Any] = {"keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 3}


def encodings_for(server_encoding: str | None) -> tuple[str, str]:
    """Return the ``client_encoding`` to ask for, and Python's name of it.

    It is UTF8, unless the database may hold a byte that the server cannot convert: such a byte
    would end the stream at the same change every time. The decoder marks such values instead.
    """
    if server_encoding == "SQL_ASCII":
        return "SQL_ASCII", "utf-8"
    if server_encoding in WITH_HOLES:
        return server_encoding, WITH_HOLES[server_encoding]
    return "UTF8", "utf-8"


def codec_of(server_encoding: str) -> str:
    """Return Python's codec for text in a database's encoding.

    Raises ``LookupError`` if it has none.
    """
    return {**_OTHERS, **WITH_HOLES}[server_encoding]


def given_up_after(conninfo: str) -> dict[str, Any]:
    """Return connection parameters that detect a host which vanished without closing its end.

    The connection fails when what was sent, status updates included, is not acknowledged for 20 s,
    unless the DSN has its own ``tcp_user_timeout``.
    """
    parameters = libpq.conninfo_to_dict(conninfo)
    return {"tcp_user_timeout": parameters.get("tcp_user_timeout", 20_000)}


def replication_conninfo(conninfo: str, *, client_encoding: str) -> str:
    """Return the connection string of a walsender session. Raises ``psycopg.ProgrammingError``."""
    # A vanished host must free its slot soon, hence the short timeout.
    timeout = {"wal_sender_timeout": f"{round(settings.WALSENDER_TIMEOUT_SECONDS * 1000)}ms"}
    session_settings = {**TEXT_SETTINGS, **timeout, "client_encoding": client_encoding}
    parameters = libpq.conninfo_to_dict(conninfo)
    options = " ".join(f"-c {name}={value}" for name, value in session_settings.items())
    return libpq.make_conninfo(
        conninfo,
        replication="database",
        application_name="replview",
        connect_timeout=parameters.get("connect_timeout", 10),
        options=f"{parameters.get('options', '')} {options}".strip(),
        **given_up_after(conninfo),
    )


def polling_conninfo(conninfo: str) -> str:
    """Return the connection string of an ordinary connection that polls a slot with SQL functions.

    It contains nothing that a pooler would refuse. Such a connection is silent while the server
    decodes, so keepalive probes must detect a host that is gone. Raises
    ``psycopg.ProgrammingError``.
    """
    parameters = libpq.conninfo_to_dict(conninfo)
    return libpq.make_conninfo(
        conninfo,
        application_name="replview",
        client_encoding="UTF8",
        connect_timeout=parameters.get("connect_timeout", 10),
        **{name: parameters.get(name, value) for name, value in PROBES.items()},
        **given_up_after(conninfo),
    )
