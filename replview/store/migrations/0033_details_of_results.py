"""Stored results of history jobs have ``details`` where they had ``told``, as new ones do."""

from django.db import migrations

_RENAME = """
    UPDATE history_job
    SET result = result - '{0}' || jsonb_build_object('{1}', result->'{0}') WHERE result ? '{0}'
"""


class Migration(migrations.Migration):

    dependencies = [('store', '0032_incarnation_for_life')]
    operations = [
        migrations.RunSQL(_RENAME.format('told', 'details'), _RENAME.format('details', 'told')),
    ]
