"""The changes of a row from the index alone: it has their transaction and operation, too. And an
index of the transactions whose changes do not count.
"""

from django.db import migrations, models

from replview.store.migrations import build_beside, index_beside

_UNCOUNTED = models.Index(
    fields=['id'], name='transaction_uncounted',
    condition=~models.Q(state__in=['committed', 'snapshot', 'message']))
_NEW = 'change_row_history_new'
_COLUMNS = '(relation_id, key_hash, lsn, seq) INCLUDE (transaction_id, op)'
_IS_DONE = """
    SELECT indnatts > indnkeyatts FROM pg_index WHERE indexrelid = 'change_row_history'::regclass
"""
_WITHOUT = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'change'::regclass AND NOT EXISTS (
        SELECT FROM pg_index x JOIN pg_inherits a ON a.inhrelid = x.indexrelid
        WHERE x.indrelid = i.inhrelid AND a.inhparent = to_regclass(%s))
"""


def replace(apps, schema_editor):
    """Partition by partition beside running receivers, then at once in the place of the former one.
    It goes on where it was cut short.
    """
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(_IS_DONE)
        if cursor.fetchone() == (True,):
            return
        # On no partition yet, but on those that are made from now on.
        cursor.execute(f'CREATE INDEX IF NOT EXISTS {_NEW} ON ONLY change {_COLUMNS}')
        cursor.execute(_WITHOUT, [_NEW])
        for (partition,) in cursor.fetchall():
            name = f'{partition}_row_history'
            build_beside(
                cursor, name, f'CREATE INDEX CONCURRENTLY {name} ON {partition} {_COLUMNS}')
            cursor.execute(f'ALTER INDEX {_NEW} ATTACH PARTITION {name}')
        cursor.execute(
            f'DROP INDEX change_row_history; ALTER INDEX {_NEW} RENAME TO change_row_history')


class Migration(migrations.Migration):

    atomic = False
    dependencies = [('store', '0027_index_of_what_was_seen')]
    operations = [
        index_beside(_UNCOUNTED),
        migrations.RunPython(replace, migrations.RunPython.noop),
    ]
