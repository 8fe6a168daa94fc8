"""Settings of a source that end its slots, besides max_slot_wal_keep_size."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('store', '0028_row_history_from_its_index')]
    operations = [
        migrations.AddField('source', 'idle_slot_timeout_seconds', models.IntegerField(null=True)),
        migrations.AddField('source', 'hot_standby_feedback', models.BooleanField(null=True)),
    ]
