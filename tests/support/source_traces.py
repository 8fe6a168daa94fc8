"""Lists the publications and slots that are left on a source."""


def left_on(source) -> tuple[set[str], set[str]]:
    """Publications of the database and its slots."""
    with source.connect() as connection:
        publications = connection.execute("SELECT pubname FROM pg_publication").fetchall()
        slots = connection.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
        ).fetchall()
    return {name for (name,) in publications}, {name for (name,) in slots}
