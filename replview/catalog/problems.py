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
        "Correct the role or the password in the address (the server does not say whether the role "
        "exists); to set a new password: ALTER ROLE {user_sql} PASSWORD '…'",
    ),
    (
        r"authentication method requirement",
        "weak_authentication",
        "the server at {host} asks for the password in plain text or as MD5, but a stored "
        "password is sent to a new address by SCRAM only",
        "Enter the password with the address; or, on the server, set password_encryption = "
        "'scram-sha-256' and then the role's password",
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
        "the common name (CN) of the client certificate does not belong to role {user}",
        "Use a certificate whose common name is {user}, or map its common name to the role in "
        "pg_ident.conf",
    ),
    (
        r"(no pg_hba\.conf entry|pg_hba\.conf rejects).*no encryption|SSL connection is required",
        "hba_refused",
        "{host} does not let role {user} connect to {database} from this machine without TLS",
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
        "pg_hba.conf of {host} does not let role {user} connect to {database} from this machine",
        "Add to pg_hba.conf, then SELECT pg_reload_conf(): "
        "host {database} {user} <address of replview>/32 scram-sha-256",
    ),
    (
        rf"database {_QUOTED_NAME} does not exist|no such database",
        "no_such_database",
        "there is no database {name} on {host}",
        "Name an existing database in the address (to list them: SELECT datname FROM pg_database)",
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
        "the address leads to a connection pooler, which does not forward replication connections",
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
        "no connection service file of this user defines the service in the address",
        "Define the service in ~/.pg_service.conf, or set PGSERVICEFILE to the file that does",
    ),
    (
        r"certificate verify failed|self-signed certificate|unable to get local issuer",
        "tls",
        "the certificate of {host} is not signed by a certificate authority in sslrootcert",
        "Set sslrootcert to the file of the authority that signed the server's certificate "
        "(sslrootcert=system: the authorities that this machine trusts); do not lower sslmode: "
        "another host could then pose as the server",
    ),
    (
        r"does not match host name",
        "tls",
        "the certificate of {host} is for another host name",
        "Set host to the name in the certificate (hostaddr can hold the IP address), or have a "
        "certificate issued for {host}",
    ),
    (
        r"root certificate file .* (does not exist|could not|cannot)"
        r"|could not (read|load) root certificate file",
        "tls",
        "replview cannot read the file in sslrootcert",
        "Put the authority's certificate into that file and let replview and its workers read it, "
        "or set sslrootcert to another file",
    ),
    (
        r"not support SSL|SSL was required",
        "tls",
        "the server at {host} offers no TLS, but sslmode in the address requires it",
        "On the server, install a certificate and set ssl = on, then SELECT pg_reload_conf()",
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
        "a TLS connection to {host} failed, and sslmode in the address requires one",
        "Correct sslmode, sslrootcert or sslcert in the address, or the server's TLS settings",
    ),
    (
        r"connection to server on socket.*(No such file or directory|Connection refused)",
        "unreachable",
        "no server listens on a Unix-domain socket at {host}",
        "Check the port, and compare the directory with SHOW unix_socket_directories on the "
        "server; replview and its workers must run on that machine and have access to the "
        "directory",
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
    lines = re.split(r"(?:FATAL|ERROR):\s*", text)[-1].splitlines() or ["it gave no reason"]
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
