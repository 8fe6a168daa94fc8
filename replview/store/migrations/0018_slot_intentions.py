"""What is about to be made on sources: so that nothing stays there when its maker is killed."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import replview.store.fields


class Migration(migrations.Migration):
    dependencies = [("store", "0017_managed_by")]

    operations = [
        migrations.CreateModel(
            name="SlotIntention",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("source_name", models.TextField()),
                ("conninfo", models.TextField(blank=True, default="")),
                ("sealed_password", models.TextField(blank=True, default="")),
                ("password_ref", models.TextField(blank=True, default="")),
                ("slot_name", models.TextField()),
                ("after_lsn", replview.store.fields.LSNField(null=True)),
                ("begun", models.JSONField(blank=True, default=list)),
                ("begun_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("seen_at", models.DateTimeField(null=True)),
                ("tried_at", models.DateTimeField(null=True)),
                ("swept_at", models.DateTimeField(null=True)),
                (
                    "draft",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="store.sourcedraft",
                    ),
                ),
                (
                    "source",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="store.source",
                    ),
                ),
            ],
            options={"db_table": "slot_intention"},
        ),
    ]
