"""Archives: the source's name in their folders, which a rename does not change."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0019_months_beside")]

    operations = [
        # A constant default: no row is rewritten, and who does not know the column yet may insert.
        migrations.AddField(
            model_name="archivemark",
            name="home",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
    ]
