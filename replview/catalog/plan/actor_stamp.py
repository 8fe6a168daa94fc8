"""The trigger that stamps writing transactions: its SQL, and what of it a source has.

For applications that cannot be changed. The first statement of a transaction that writes to a
stamped table puts a logical message into it (prefix ``replview.stamp``): session user, application
name, client address. Whether a transaction is stamped already is kept in a setting local to it,
which a rolled-back savepoint undoes exactly as it takes the message away.

What a stamp is worth. PostgreSQL lets every role write messages, so somebody with a SQL session can
write a false stamp; on a stamped table the true one stands beside it, and the receiver then calls
the actor claimed. Whoever also sets the setting by hand keeps the true one out: no place is both
undone with a savepoint and closed to the session (a secret would be seen there). Only where EXECUTE
on pg_logical_emit_message() is taken from PUBLIC is every stamp the trigger's; one can be missing
then, never false.
"""

from dataclasses import dataclass

from replview.catalog.connections import Connection, Query

#: Schema of everything that is installed, but for the triggers of this name on the tables.
SCHEMA = "replview_stamp"
TRIGGER = "replview_stamp"
#: Begins the schema's comment, by which ``remove`` knows that it is ours.
OURS = "Made by replview actor install"
#: Ends it where EXECUTE on pg_logical_emit_message() was taken from PUBLIC.
REVOKED = "; EXECUTE on pg_logical_emit_message was revoked from PUBLIC"

#: The body of ``replview_stamp.stamp()``; compared with what is installed to tell older versions.
#: It runs with its owner's rights, in whatever search_path: every name is written whole.
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
    schema: str
    name: str
    #: Somebody switched it off, or it fires in replica sessions alone.
    disabled: bool

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StampFacts:
    """What a source has of the stamp, and what the connected role may do about it."""

    role: str
    superuser: bool
    in_recovery: bool
    may_create: bool
    may_emit: bool
    #: Every role may write messages, stamps too.
    public_may_emit: bool
    #: ``pg_logical_emit_message(…)``, each with its argument types.
    emit_functions: list[str]
    #: Owner of the schema; None: not installed.
    owner: str | None = None
    #: The connected role is the owner, or has the owner's rights.
    owned: bool = False
    #: The schema's comment; None where there is none, or no schema.
    about: str | None = None
    body: str | None = None
    tables: tuple[StampedTable, ...] = ()

    @property
    def ours(self) -> bool:
        """The schema is one that ``actor install`` made."""
        return bool(self.about and self.about.startswith(OURS))

    @property
    def revoked(self) -> bool:
        """``actor install`` took EXECUTE from PUBLIC."""
        return bool(self.about and self.about.endswith(REVOKED))

    @property
    def current(self) -> bool:
        return self.body is not None and self.body.strip() == BODY.strip()


def read_stamp(connection: Connection) -> StampFacts:
    """Look at a source. Raises ``psycopg.Error``."""
    installed = INSTALLED.rows(connection)
    return StampFacts(
        **RIGHTS.row(connection),
        **(installed[0] if installed else {}),
        tables=tuple(StampedTable(**row) for row in STAMPED.rows(connection)),
    )
