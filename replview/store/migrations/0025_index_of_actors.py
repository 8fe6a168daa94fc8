"""An index of what names several actors, built beside running receivers: CREATE INDEX would have
every writer wait. A build that was cut short leaves an invalid index, which is built anew.
"""

from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import migrations, models

_INDEX = GinIndex(OpClass('actors', 'jsonb_path_ops'), name='transaction_by_actors',
                  condition=models.Q(actors__isnull=False))


def _build(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(
            'SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)', [_INDEX.name])
        found = cursor.fetchone()
        if found == (True,):
            return
        # It waits for transactions older than itself, and nobody waits behind it meanwhile.
        cursor.execute("SELECT current_setting('lock_timeout'), set_config('lock_timeout', '0', false)")
        before = cursor.fetchone()[0]
        if found:
            cursor.execute(f'DROP INDEX CONCURRENTLY "{_INDEX.name}"')
        schema_editor.add_index(apps.get_model('store', 'Transaction'), _INDEX, concurrently=True)
        cursor.execute("SELECT set_config('lock_timeout', %s, false)", [before])


class Migration(migrations.Migration):

    atomic = False
    dependencies = [('store', '0024_actors_of_changes')]
    operations = [migrations.SeparateDatabaseAndState(
        [migrations.RunPython(_build, migrations.RunPython.noop)],
        [migrations.AddIndex('transaction', _INDEX)],
    )]
