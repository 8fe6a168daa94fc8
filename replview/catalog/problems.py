"""This module explains why a source cannot be reached or refuses us: code, cause and remedy.

A failed connection has no SQLSTATE, so the English messages of libpq and the server are parsed.
Known messages are reworded with the names in them. Of an unknown message only the server's part is
repeated, never the connection string. A message about data may quote a value, so nothing of it is
repeated.
"""

import re
from typing import Any

import psycopg
from psycopg import conninfo as libpq

from replview.text.problem import Problem

#: Classes of SQLSTATE whose texts name hosts, roles, objects and limits, but never a value.
TEXTS_WITHOUT_VALUES = {"08", "0A", "25", "28", "3D", "42", "53", "55", "57"}
_QUOTED_NAME = r"[\"“«„](?P<name>[^\"”»“]*)[\"”»“]"
#: The end of a remedy if replication connections are blocked; the field is then ``interface``.
THROUGH_SQL = "receive the slot through SQL functions instead"
#: Pattern in the message → code, cause, remedy; ``{name}`` is what the server named,
#: ``{host}``, ``{user}`` and ``{database}`` come from the address.
_KNOWN_MESSAGES: list[tuple[str, str, str, str]] = [
    (
        r"password authentication failed|no password supplied|fe_sendauth|SASL.*failed",
        "wrong_password",
        "the server at {host} refused the password of role {user}, or none was given",
        "Correct the address (the server does not say whether there is such a role); to set a new "
        "one: ALTER ROLE {user_sql} PASSWORD '…'",
    ),
    (
        r"authentication method requirement",
        "weak_authentication",
        "the server at {host} asks for the password in plain text or as MD5, but a stored "
        "password is sent to a new address by SCRAM only",
        "Give the password together with the address; on the server: password_encryption = "
        "'scram-sha-256'",
    ),
    (
        r"connection requires a valid client certificate",
        "tls",
        "the server at {host} asks role {user} for a client certificate",
        "Add sslcert=<file> and sslkey=<file> to the address: a certificate signed by an authority "
        "in the server's ssl_ca_file",
    ),
    (
        r"certificate authentication failed",
        "tls",
        "the client certificate is not that of role {user}",
        "Use one whose common name (CN) is {user}, or map it in pg_ident.conf",
    ),
    (
        r"(no pg_hba\.conf entry|pg_hba\.conf rejects).*no encryption|SSL connection is required",
        "hba_refused",
        "{host} does not let role {user} connect to {database} without TLS, or from here",
        "Add sslmode=verify-full and sslrootcert=<file> to the address; or, in pg_hba.conf: "
        "host {database} {user} <address of replview>/32 scram-sha-256",
    ),
    (
        r"no pg_hba\.conf entry for replication|pg_hba\.conf rejects replication",
        "hba_refused",
        "pg_hba.conf of {host} does not let role {user} open a replication connection",
        "Add to pg_hba.conf, then SELECT pg_reload_conf(): "
        "host {database} {user} <address of replview>/32 scram-sha-256; or " + THROUGH_SQL,
    ),
    (
        r"no pg_hba\.conf entry|pg_hba\.conf rejects",
        "hba_refused",
        "pg_hba.conf of {host} does not let role {user} connect to {database} from here",
        "Add to pg_hba.conf, then SELECT pg_reload_conf(): "
        "host {database} {user} <address of replview>/32 scram-sha-256",
    ),
    (
        rf"database {_QUOTED_NAME} does not exist|no such database",
        "no_such_database",
        "there is no database {name} on {host}",
        "Name an existing one in the address (SELECT datname FROM pg_database)",
    ),
    (
        rf"role {_QUOTED_NAME} does not exist",
        "no_such_role",
        "there is no role {name} on {host}",
        "CREATE ROLE {user_sql} LOGIN REPLICATION PASSWORD '…'",
    ),
    (
        rf"role {_QUOTED_NAME} is not permitted to log in",
        "no_login",
        "role {name} may not log in",
        "ALTER ROLE {user_sql} LOGIN",
    ),
    (
        r"must be superuser or replication role|permission denied to start WAL sender"
        r"|REPLICATION attribute|must have replication",
        "no_replication_privilege",
        "role {user} may not replicate",
        "ALTER ROLE {user_sql} REPLICATION (on managed services their own role, such as "
        "GRANT rds_replication TO {user_sql})",
    ),
    (
        r"number of requested standby connections exceeds max_wal_senders",
        "no_free_walsender",
        "all walsenders of {host} are in use",
        "ALTER SYSTEM SET max_wal_senders = <more>, then restart the server; or " + THROUGH_SQL,
    ),
    (
        r"too many (clients|connections)|remaining connection slots|too_many_connections",
        "too_many_connections",
        "{host} has no connection left for role {user}",
        "End unused sessions, or ALTER SYSTEM SET max_connections = <more> and restart",
    ),
    (
        r"unsupported startup parameter: replication|replication.* not supported.*pgbouncer",
        "pooler",
        "a connection pooler is in between, which does not forward replication connections",
        "Give the address of the server itself, or " + THROUGH_SQL,
    ),
    (
        r"database system is (starting up|shutting down|in recovery)|not yet accepting",
        "starting_up",
        "the server at {host} is starting up or shutting down",
        "Wait until it accepts connections",
    ),
    (
        r"could not translate host name|Name or service not known|failed to resolve",
        "unknown_host",
        "the host name {host} cannot be resolved",
        "Correct the host in the address, or this machine's name resolution",
    ),
    (
        r"definition of service .* not found|service file .* not found",
        "unknown_service",
        "the service that the address names is in no service file of this user",
        "Define it in ~/.pg_service.conf, or set PGSERVICEFILE",
    ),
    (
        r"certificate verify failed|self-signed certificate|unable to get local issuer",
        "tls",
        "the certificate of {host} is signed by no authority in sslrootcert",
        "Let sslrootcert name the file of the authority that signed the server's certificate "
        "(sslrootcert=system: those this machine trusts); do not lower sslmode: it is what keeps "
        "others from posing as the server",
    ),
    (
        r"does not match host name",
        "tls",
        "the certificate of {host} is for another host name",
        "Use the name that the certificate is for as host (its IP address can be given beside it "
        "as hostaddr), or have one issued for this name",
    ),
    (
        r"root certificate file .* (does not exist|could not|cannot)"
        r"|could not (read|load) root certificate file",
        "tls",
        "the file that sslrootcert names cannot be read here",
        "Put the authority's certificate there, readable for replview and its workers, or name "
        "another file with sslrootcert",
    ),
    (
        r"not support SSL|SSL was required",
        "tls",
        "the server at {host} offers no TLS, but sslmode of the address requires it",
        "On the server: ssl = on with a certificate, then SELECT pg_reload_conf()",
    ),
    (
        r"private key file|could not (read|load) certificate file|certificate present, but not",
        "tls",
        "the client certificate or its key cannot be used",
        "sslcert and sslkey must name files that replview and its workers can read; the key must "
        "not be readable for others (chmod 600)",
    ),
    (
        r"SSL error|certificate|sslmode|root\.crt",
        "tls",
        "no TLS connection to {host} as the address's sslmode asks for",
        "Correct sslmode, sslrootcert or sslcert in the address, or the server's TLS settings",
    ),
    (
        r"connection to server on socket.*(No such file or directory|Connection refused)",
        "unreachable",
        "no server has its socket at {host}",
        "Check the folder and the port: on the server, SHOW unix_socket_directories; replview and "
        "its workers must run on that machine and may enter the folder",
    ),
    (
        r"Connection refused|timeout|timed out|No route to host|unreachable|is the server running"
        r"|Connection reset|server closed the connection|SSL SYSCALL|connection is closed"
        r"|No such file or directory",
        "unreachable",
        "no server answers at {host}",
        "Check host and port in the address, listen_addresses on the server, and firewalls between",
    ),
]


class SourceProblem(Problem):
    """The reason why a source cannot be reached, or refuses what was asked for."""


def explain(error: psycopg.Error, conninfo: str) -> SourceProblem:
    """Return the problem behind an error. ``conninfo`` gives names; its password is not read."""
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        # libpq quotes the string that it could not parse: the message must not be shown.
        remedy = "Write postgresql://user:password@host:port/database, or host=… dbname=… user=…"
        return SourceProblem("bad_dsn", "the address is not a libpq connection string", remedy)
    text = str(error)
    names = _names(conninfo)
    for pattern, code, cause, remedy in _KNOWN_MESSAGES:
        if match := re.search(pattern, text, re.IGNORECASE):
            values = {**names, "name": match.groupdict().get("name") or names["database"]}
            field = "interface" if remedy.endswith(THROUGH_SQL) else ""
            return SourceProblem(code, cause.format(**values), remedy.format(**values), field)
    if error.sqlstate and error.sqlstate[:2] not in TEXTS_WITHOUT_VALUES:
        cause = f"{names['host']} refused the request (SQLSTATE {error.sqlstate})"
        return SourceProblem("refused", cause, "See the server's log for the cause")
    lines = re.split(r"(?:FATAL|ERROR):\s*", text)[-1].splitlines() or ["nothing"]
    cause = f"{names['host']} refused the connection: {lines[0].strip()[:200]}"
    return SourceProblem("refused", cause, "See the server's log")


def first_line(error: psycopg.Error) -> str:
    """Return the first line of the server's message on our own SQL, which has no values in it."""
    return (error.diag.message_primary or "the server gave no reason").splitlines()[0]


def _names(conninfo: str) -> dict[str, str]:
    """Return host, role and database for sentences: never a secret."""
    try:
        parts: dict[str, Any] = libpq.conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        parts = {}
    host = parts.get("host") or parts.get("hostaddr") or "the local socket"
    user = str(parts.get("user") or "of the operating system's user")
    return {
        "host": f"{host}:{parts['port']}" if parts.get("port") else str(host),
        "user": user,
        "user_sql": '"' + user.replace('"', '""') + '"',
        "database": str(parts.get("dbname") or user),
    }
