"""How a receiver connects to a source: its address with what we add, and the text's encoding."""

from typing import Any

from django.conf import settings
from psycopg import conninfo as libpq

#: Single-byte encodings in which some bytes stand for nothing, by PostgreSQL's name, with Python's
#: codec; byte for byte the two agree (PostgreSQL 18, Python 3.11).
WITH_HOLES = {
    "LATIN3": "iso8859-3",
    "ISO_8859_6": "iso8859-6",
    "ISO_8859_7": "iso8859-7",
    "ISO_8859_8": "iso8859-8",
    **{f"WIN{page}": f"cp{page}" for page in (874, *range(1250, 1256), 1257, 1258)},
}
#: The other encodings a database can have, by PostgreSQL's name, with Python's codec. What is not
#: here Python cannot read (EUC_TW, EUC_JIS_2004 as PostgreSQL has them, MULE_INTERNAL).
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
#: The session's own settings shape text output, not the writer's.
TEXT_SETTINGS = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "timezone": "UTC",
}
#: Of a connection on which we only read: they notice a host that is gone.
PROBES: dict[str, Any] = {"keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 3}


def encodings_for(server_encoding: str | None) -> tuple[str, str]:
    """``client_encoding``, and Python's name of it.

    UTF8, unless the server could then meet a byte that it can store but not convert: that would
    end the stream at this change every time. We mark such values instead.
    """
    if server_encoding == "SQL_ASCII":
        return "SQL_ASCII", "utf-8"
    if server_encoding in WITH_HOLES:
        return server_encoding, WITH_HOLES[server_encoding]
    return "UTF8", "utf-8"


def codec_of(server_encoding: str) -> str:
    """Python's codec for text as a database has it. Raises ``LookupError`` where there is none."""
    return {**_OTHERS, **WITH_HOLES}[server_encoding]


def given_up_after(conninfo: str) -> dict[str, Any]:
    """Connection parameters by which a host that vanished without a word is given up, unless the
    DSN has its own: what we sent, status updates too, was not acknowledged for 20 s.
    """
    given = libpq.conninfo_to_dict(conninfo)
    return {"tcp_user_timeout": given.get("tcp_user_timeout", 20_000)}


def replication_conninfo(conninfo: str, *, client_encoding: str) -> str:
    """The address of a walsender session. Raises ``psycopg.ProgrammingError``."""
    # A vanished host must free its slot soon, hence the short timeout.
    timeout = {"wal_sender_timeout": f"{round(settings.WALSENDER_TIMEOUT_SECONDS * 1000)}ms"}
    wanted = {**TEXT_SETTINGS, **timeout, "client_encoding": client_encoding}
    given = libpq.conninfo_to_dict(conninfo)
    options = " ".join(f"-c {name}={value}" for name, value in wanted.items())
    return libpq.make_conninfo(
        conninfo,
        replication="database",
        application_name="replview",
        connect_timeout=given.get("connect_timeout", 10),
        options=f"{given.get('options', '')} {options}".strip(),
        **given_up_after(conninfo),
    )


def polling_conninfo(conninfo: str) -> str:
    """The address of an ordinary connection that reads a slot through SQL functions.

    Nothing that a pooler would refuse. Such a connection is silent while the server decodes, so
    probes must notice a host that is gone. Raises ``psycopg.ProgrammingError``.
    """
    given = libpq.conninfo_to_dict(conninfo)
    return libpq.make_conninfo(
        conninfo,
        application_name="replview",
        client_encoding="UTF8",
        connect_timeout=given.get("connect_timeout", 10),
        **{name: given.get(name, value) for name, value in PROBES.items()},
        **given_up_after(conninfo),
    )
