from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('store', '0023_changes_that_count')]

    operations = [migrations.AddField('transaction', 'actors', models.JSONField(null=True))]
