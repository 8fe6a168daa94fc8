"""Sources: where their passwords are, and whether they are being removed."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0014_keeping")]

    operations = [
        # Constant defaults: no row is rewritten.
        migrations.AddField(
            model_name="source",
            name="password_ref",
            field=models.TextField(blank=True, default=""),
        ),
        migrations.AddField(
            model_name="source",
            name="credentials_at",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="source",
            name="credentials_by",
            field=models.TextField(blank=True, default=""),
        ),
        migrations.AddField(
            model_name="source",
            name="removing_at",
            field=models.DateTimeField(null=True),
        ),
        # onboarding
        migrations.CreateModel(
            name="SourceDraft",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("watch", "Watch"), ("monitor", "Monitor"), ("record", "Record")],
                        max_length=7,
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("open", "Open"),
                            ("asked", "Asked"),
                            ("working", "Working"),
                            ("done", "Done"),
                            ("failed", "Failed"),
                            ("cancelled", "Cancelled"),
                        ],
                        default="open",
                        max_length=9,
                    ),
                ),
                ("conninfo", models.TextField(blank=True, default="")),
                ("sealed_password", models.TextField(blank=True, default="")),
                ("password_ref", models.TextField(blank=True, default="")),
                ("answers", models.JSONField(blank=True, default=dict)),
                ("progress", models.JSONField(blank=True, default=list)),
                ("undo", models.JSONField(blank=True, default=list)),
                ("stop_wanted", models.BooleanField(default=False)),
                ("problem_code", models.TextField(blank=True, default="")),
                ("problem_cause", models.TextField(blank=True, default="")),
                ("problem_remedy", models.TextField(blank=True, default="")),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("touched_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("asked_at", models.DateTimeField(null=True)),
                ("heartbeat_at", models.DateTimeField(null=True)),
                ("seen_at", models.DateTimeField(null=True)),
                (
                    "slot",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to="store.slot",
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
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="source_drafts",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "db_table": "source_draft",
                "indexes": [
                    models.Index(
                        condition=models.Q(("state__in", ["asked", "working"])),
                        fields=["id"],
                        name="source_draft_waiting",
                    )
                ],
            },
        ),
        # onboarding
    ]
