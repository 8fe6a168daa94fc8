"""How long, and how much, each slot keeps; what that is day by day."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("store", "0013_erasures")]

    operations = [
        migrations.AddField("slot", "keep_for_days", models.IntegerField(null=True)),
        migrations.AddField("slot", "keep_at_most_bytes", models.BigIntegerField(null=True)),
        migrations.CreateModel(
            name="StoreMoment",
            fields=[
                ("at", models.DateTimeField(primary_key=True, serialize=False)),
                ("size_bytes", models.BigIntegerField()),
                ("free_bytes", models.BigIntegerField(null=True)),
            ],
            options={"db_table": "store_moment"},
        ),
        migrations.CreateModel(
            name="KeptDay",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("day", models.DateField()),
                ("transactions", models.BigIntegerField(default=0)),
                ("changes", models.BigIntegerField(default=0)),
                ("size_bytes", models.BigIntegerField(default=0)),
                ("store_bytes", models.BigIntegerField(null=True)),
                ("first_seq", models.BigIntegerField(null=True)),
                ("last_seq", models.BigIntegerField(null=True)),
                (
                    "incarnation",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="kept_days",
                        to="store.slotincarnation",
                    ),
                ),
            ],
            options={
                "db_table": "kept_day",
                "indexes": [models.Index(fields=["day"], name="kept_day_by_day")],
                "constraints": [
                    models.UniqueConstraint(fields=("incarnation", "day"), name="kept_day_once")
                ],
            },
        ),
    ]
