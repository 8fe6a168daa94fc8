"""New columns of large tables: empty, or with a constant default, so that no row is rewritten."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("store", "0001_squashed_0020_archive_homes")]

    operations = [
        migrations.RunSQL(
            "ALTER TABLE slot_sample ADD COLUMN note text;",
            "ALTER TABLE slot_sample DROP COLUMN note;",
        ),
        migrations.RunSQL(
            "ALTER TABLE transaction ADD COLUMN noted boolean DEFAULT false NOT NULL;",
            "ALTER TABLE transaction DROP COLUMN noted;",
        ),
    ]
