"""Rules that mask columns."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0010_rights")]

    operations = [
        migrations.CreateModel(
            name="MaskRule",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("table_pattern", models.TextField(default="*")),
                ("column_pattern", models.TextField(default="*")),
                ("type_pattern", models.TextField(blank=True, default="")),
                (
                    "when",
                    models.CharField(
                        choices=[("ingest", "Ingest"), ("display", "Display")],
                        default="ingest",
                        max_length=7,
                    ),
                ),
                ("note", models.TextField(blank=True, default="")),
                ("created_by", models.TextField(blank=True, default="")),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "source",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="mask_rules",
                        to="store.source",
                    ),
                ),
            ],
            options={"db_table": "mask_rule", "ordering": ["id"]},
        ),
    ]
