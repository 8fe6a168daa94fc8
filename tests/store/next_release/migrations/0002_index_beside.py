"""An index of the transactions, built while receivers go on writing.

CREATE INDEX makes every writer wait until it is done, minutes on a full store; CONCURRENTLY does
not, but cannot be part of a transaction. A build that was cut short leaves an invalid index, which
is built anew. Stores that have the index keep it.
"""

from typing import Any

from django.db import migrations, models

INDEX = models.Index(fields=["incarnation", "received_at"], name="transaction_received")


def build(apps: Any, schema_editor: Any) -> None:
    model = apps.get_model("store", "Transaction")
    with schema_editor.connection.cursor() as cursor:
        # The index waits for transactions older than itself, and nobody waits behind it meanwhile.
        cursor.execute("SHOW lock_timeout")
        before = cursor.fetchone()[0]
        cursor.execute("SET lock_timeout = 0")
        cursor.execute(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [INDEX.name]
        )
        found = cursor.fetchone()
        if found and not found[0]:
            cursor.execute(f'DROP INDEX CONCURRENTLY "{INDEX.name}"')
        if not found or not found[0]:
            schema_editor.add_index(model, INDEX, concurrently=True)
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [before])


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("next_release", "0001_columns")]

    operations = [migrations.RunPython(build, migrations.RunPython.noop)]
