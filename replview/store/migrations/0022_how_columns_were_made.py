from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [('store', '0021_one_life_of_jobs')]

    operations = [migrations.AddField('relationversion', 'made', models.JSONField(null=True))]
