"""Where identifiers follow commits; of what was recorded before nobody noted it."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('store', '0025_index_of_actors')]
    operations = [
        migrations.AddField('slotincarnation', 'last_hour', models.IntegerField(db_default=0)),
        migrations.AddField('slotincarnation', 'hours_in_order', models.BooleanField(db_default=True)),
        migrations.RunSQL(
            'UPDATE slot_incarnation SET hours_in_order = false WHERE commit_seq > 0',
            migrations.RunSQL.noop,
        ),
    ]
