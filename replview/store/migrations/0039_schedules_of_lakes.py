"""Lakes that beat runs every so many minutes."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('store', '0038_lakes')]

    operations = [
        migrations.AddField('lake', 'every_minutes', models.IntegerField(null=True)),
        migrations.AlterField(
            'lakerun', 'requested_how', models.CharField(
                choices=[('page', 'Page'), ('command', 'Command'), ('schedule', 'Schedule')],
                max_length=8)),
    ]
