"""Sources: the fleet file that declares them."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0016_indexes_beside")]

    operations = [
        # A constant default: no row is rewritten, and who does not know the column yet may insert.
        migrations.AddField(
            model_name="source",
            name="managed_by",
            field=models.TextField(blank=True, db_default="", default=""),
        ),
    ]
