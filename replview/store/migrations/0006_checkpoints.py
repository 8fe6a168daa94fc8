"""When sources had their checkpoints, and an index of the alerts that are over."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('store', '0005_health'),
    ]

    operations = [
        migrations.AddField(
            model_name='sourcesample',
            name='checkpointed_at',
            field=models.DateTimeField(null=True),
        ),
        # The table is not managed: this is what the step above means. No row is rewritten.
        migrations.RunSQL(
            "ALTER TABLE source_sample ADD COLUMN checkpointed_at timestamptz;",
            "ALTER TABLE source_sample DROP COLUMN checkpointed_at;",
        ),
        migrations.AddIndex(
            model_name='alert',
            index=models.Index(fields=['-cleared_at'], name='alert_by_end'),
        ),
    ]
