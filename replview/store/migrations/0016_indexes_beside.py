"""Indexes of the transactions, built while receivers go on writing.

CREATE INDEX makes every writer wait until it is done, minutes on a full store; CONCURRENTLY does
not, but cannot be part of a transaction. A build that was cut short leaves an invalid index, which
is built anew. Stores that have the indexes keep them.
"""

from django.db import migrations

NAMES = (
    "transaction_was_open",
    "transaction_ended",
    "transaction_by_actor",
    "transaction_by_origin",
    "transaction_two_phase",
)


def build(apps, schema_editor):
    model = apps.get_model("store", "Transaction")
    wanted = {index.name: index for index in model._meta.indexes}
    with schema_editor.connection.cursor() as cursor:
        # It waits for transactions older than itself, and nobody waits behind it meanwhile.
        cursor.execute("SHOW lock_timeout")
        before = cursor.fetchone()[0]
        cursor.execute("SET lock_timeout = 0")
        for name in NAMES:
            cursor.execute(
                "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", [name]
            )
            found = cursor.fetchone()
            if found and found[0]:
                continue
            if found:
                cursor.execute(f'DROP INDEX CONCURRENTLY "{name}"')
            schema_editor.add_index(model, wanted[name], concurrently=True)
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [before])


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("store", "0015_sources")]

    operations = [migrations.RunPython(build, migrations.RunPython.noop)]
