from django.db import migrations, models

_COUNTED = models.BigIntegerField(db_default=0, default=0)


class Migration(migrations.Migration):

    dependencies = [('store', '0022_how_columns_were_made')]

    operations = [
        migrations.AddField('slot', 'changes_discarded', _COUNTED),
        migrations.AddField('slot', 'changes_rolled_back', _COUNTED),
    ]
