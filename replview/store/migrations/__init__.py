"""Schema migrations of the store."""

from django.db import migrations


def build_beside(cursor, name, build):
    """Build an index beside running receivers, by a statement or a function: CREATE INDEX would
    have every writer wait. A build that was cut short leaves an invalid index, which is built anew.
    """
    cursor.execute('SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)', [name])
    found = cursor.fetchone()
    if found == (True,):
        return
    # It waits for transactions older than itself, and nobody waits behind it meanwhile.
    cursor.execute(
        "SELECT current_setting('lock_timeout'), set_config('lock_timeout', '0', false)")
    before = cursor.fetchone()[0]
    if found:
        cursor.execute(f'DROP INDEX CONCURRENTLY "{name}"')
    build() if callable(build) else cursor.execute(build)
    cursor.execute("SELECT set_config('lock_timeout', %s, false)", [before])


def index_beside(index):
    """An index of transactions, built beside running receivers."""

    def build(apps, schema_editor):
        with schema_editor.connection.cursor() as cursor:
            build_beside(cursor, index.name, lambda: schema_editor.add_index(
                apps.get_model('store', 'Transaction'), index, concurrently=True))

    return migrations.SeparateDatabaseAndState(
        [migrations.RunPython(build, migrations.RunPython.noop)],
        [migrations.AddIndex('transaction', index)],
    )
