"""Runs of lakes that erase rows."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('store', '0039_schedules_of_lakes')]

    operations = [
        migrations.AlterField(
            'lakerun', 'action', models.CharField(
                choices=[('run', 'Run'), ('maintain', 'Maintain'), ('erase', 'Erase')],
                max_length=8)),
    ]
