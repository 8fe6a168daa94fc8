"""This module holds the SQL of the stamp, a trigger that records who writes, and reads its state.

The stamp is for applications that cannot be changed. The first statement of a transaction that
writes to a stamped table emits a logical message (prefix ``replview.stamp``) with session user,
application name and client address. A setting local to the transaction marks it as stamped. A
rolled-back savepoint undoes the setting exactly when it removes the message.

The stamp can be evaded. PostgreSQL lets every role emit messages, so a role with a SQL session can
emit a false stamp. On a stamped table the true stamp follows, and the receiver then calls the actor
claimed. A session that also sets the setting by hand suppresses the true stamp: no storage is both
undone with a savepoint and closed to the session (which would see a secret there). Only if EXECUTE
on pg_logical_emit_message() is revoked from PUBLIC does every stamp come from the trigger. A stamp
can then be missing, but never false.
"""

from dataclasses import dataclass

from replview.catalog.connections import Connection, Query

#: The schema of all installed objects, except the triggers, which are on the stamped tables.
SCHEMA = "replview_stamp"
TRIGGER = "replview_stamp"
#: The beginning of the schema's comment, by which ``remove`` recognizes it as ours.
OURS = "Made by replview actor install"
#: The end of that comment if EXECUTE on pg_logical_emit_message() was revoked from PUBLIC.
REVOKED = "; EXECUTE on pg_logical_emit_message was revoked from PUBLIC"

#: The body of ``replview_stamp.stamp()``, compared with the installed one to detect older versions.
#: It runs with its owner's rights under any search_path, so every name is qualified.
BODY = """
DECLARE
    mark pg_catalog.text := pg_catalog.pg_current_xact_id();
    role pg_catalog.text := pg_catalog.current_setting('role');
BEGIN
    IF coalesce(pg_catalog.current_setting('replview_stamp.mark', true), '')
       OPERATOR(pg_catalog.=) mark THEN
        RETURN NULL;
    END IF;
    PERFORM pg_catalog.set_config('replview_stamp.mark', mark, true);
    PERFORM pg_catalog.pg_logical_emit_message(true, 'replview.stamp', pg_catalog.convert_to(
        pg_catalog.json_strip_nulls(pg_catalog.json_build_object(
            'actor', session_user,
            'application_name', pg_catalog.current_setting('application_name'),
            'client_address', pg_catalog.host(pg_catalog.inet_client_addr()),
            'role', CASE WHEN role OPERATOR(pg_catalog.<>) 'none' THEN role END
        ))::pg_catalog.text, 'UTF8'));
    RETURN NULL;
END
"""

INSTALLED = Query(
    name="stamp_installed",
    about="The stamp's schema with its owner and comment, and its function; anyone may read it.",
    sql="""
        SELECT pg_get_userbyid(n.nspowner) AS owner,
               obj_description(n.oid, 'pg_namespace') AS about,
               pg_has_role(n.nspowner, 'USAGE') AS owned,
               (SELECT p.prosrc FROM pg_proc AS p
                 WHERE p.pronamespace = n.oid AND p.proname = 'stamp') AS body
          FROM pg_namespace AS n WHERE n.nspname = 'replview_stamp'
    """,
)
STAMPED = Query(
    name="stamped_tables",
    about="Tables that have the stamp's trigger, and whether it fires; anyone may read it.",
    sql="""
        SELECT n.nspname AS schema, c.relname AS name, t.tgenabled NOT IN ('O', 'A') AS disabled
          FROM pg_trigger AS t
          JOIN pg_class AS c ON c.oid = t.tgrelid
          JOIN pg_namespace AS n ON n.oid = c.relnamespace
          JOIN pg_proc AS p ON p.oid = t.tgfoid
          JOIN pg_namespace AS f ON f.oid = p.pronamespace
         WHERE t.tgname = 'replview_stamp' AND NOT t.tgisinternal AND f.nspname = 'replview_stamp'
         ORDER BY 1, 2
    """,
)
RIGHTS = Query(
    name="stamp_rights",
    about="What installing needs of the connected role, and who may emit messages; anyone.",
    sql="""
        SELECT current_user AS role, r.rolsuper AS superuser, pg_is_in_recovery() AS in_recovery,
               has_database_privilege(current_database(), 'CREATE') AS may_create,
               bool_and(has_function_privilege(p.oid, 'EXECUTE')) AS may_emit,
               bool_or(has_function_privilege('public', p.oid, 'EXECUTE')) AS public_may_emit,
               array_agg(p.oid::regprocedure::text ORDER BY p.oid) AS emit_functions
          FROM pg_roles AS r, pg_proc AS p
         WHERE r.rolname = current_user AND p.proname = 'pg_logical_emit_message'
           AND p.pronamespace = 'pg_catalog'::regnamespace
         GROUP BY r.rolsuper
    """,
)
MAY_TRIGGER = Query(
    name="tables_may_trigger",
    about="Which of these tables the connected role may put a trigger on; anyone may read it.",
    sql="SELECT oid FROM unnest(%s::oid[]) AS t (oid) WHERE has_table_privilege(oid, 'TRIGGER')",
)


@dataclass(frozen=True, slots=True)
class StampedTable:
    """A table that has the stamp's trigger."""

    schema: str
    name: str
    #: True if the trigger is disabled, or fires only in replica sessions.
    disabled: bool

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StampFacts:
    """The parts of the stamp that a source has, and what the connected role may do about it."""

    role: str
    superuser: bool
    in_recovery: bool
    may_create: bool
    may_emit: bool
    #: True if every role may emit messages, and so stamps.
    public_may_emit: bool
    #: Signatures of the functions ``pg_logical_emit_message``.
    emit_functions: list[str]
    #: The owner of the schema; None: the stamp is not installed.
    owner: str | None = None
    #: True if the connected role is the owner, or has the owner's rights.
    owned: bool = False
    #: The schema's comment; None where there is no comment, or no schema.
    about: str | None = None
    body: str | None = None
    tables: tuple[StampedTable, ...] = ()

    @property
    def ours(self) -> bool:
        """Return whether ``actor install`` made the schema."""
        return bool(self.about and self.about.startswith(OURS))

    @property
    def revoked(self) -> bool:
        """Return whether ``actor install`` revoked EXECUTE from PUBLIC."""
        return bool(self.about and self.about.endswith(REVOKED))

    @property
    def current(self) -> bool:
        """Return whether the installed function is the present version."""
        return self.body is not None and self.body.strip() == BODY.strip()


def read_stamp(connection: Connection) -> StampFacts:
    """Read the state of the stamp on a source. Raises ``psycopg.Error``."""
    installed = INSTALLED.rows(connection)
    return StampFacts(
        **RIGHTS.row(connection),
        **(installed[0] if installed else {}),
        tables=tuple(StampedTable(**row) for row in STAMPED.rows(connection)),
    )
