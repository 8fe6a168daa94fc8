"""Roles and rights: grants on sources, scopes of tokens, the code that makes the first admin.

Whoever had an account could do everything but what was the staff's: they become operators, who may
see every source, and their tokens may go on exporting.
"""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


def make_roles(apps, schema_editor):
    Group = apps.get_model("auth", "Group")
    Grant = apps.get_model("store", "Grant")
    groups = {}
    for word in ("viewer", "operator", "admin"):
        groups[word], _ = Group.objects.get_or_create(name=word)
        if word != "admin":
            Grant.objects.get_or_create(group=groups[word], source=None, user=None)
    User = apps.get_model(*settings.AUTH_USER_MODEL.split("."))
    for user in User.objects.filter(is_superuser=False):
        user.groups.add(groups["operator"])
    apps.get_model("store", "ApiToken").objects.update(scope="export")


class Migration(migrations.Migration):
    dependencies = [
        ("store", "0009_history_jobs"),
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SetupCode",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("expires_at", models.DateTimeField()),
                ("used_at", models.DateTimeField(null=True)),
            ],
            options={"db_table": "setup_code"},
        ),
        migrations.AddField(
            model_name="apitoken",
            name="scope",
            field=models.CharField(
                choices=[("metrics", "Metrics"), ("read", "Read"), ("export", "Export"), ("operate", "Operate")],
                default="read",
                db_default="read",
                max_length=7,
            ),
        ),
        migrations.CreateModel(
            name="Grant",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("tables", django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), blank=True, default=list, size=None)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("created_by", models.TextField(blank=True, default="")),
                ("group", models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name="grants", to="auth.group")),
                ("source", models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name="grants", to="store.source")),
                ("user", models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name="grants", to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "db_table": "rights_grant",
                "ordering": ["id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("group__isnull", True), ("user__isnull", False))
                        | models.Q(("group__isnull", False), ("user__isnull", True)),
                        name="grant_to_one",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Identity",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("issuer", models.TextField()),
                ("subject", models.TextField()),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="identities", to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "db_table": "identity",
                "constraints": [models.UniqueConstraint(fields=("issuer", "subject"), name="identity_by_subject")],
            },
        ),
        migrations.RunPython(make_roles, migrations.RunPython.noop, elidable=False),
    ]
