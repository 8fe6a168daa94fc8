"""Second factors of accounts with a password."""

import django.contrib.postgres.fields
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('store', '0035_assigned_passwords'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.CreateModel(
            'SecondFactor',
            [
                ('user', models.OneToOneField(
                    on_delete=models.CASCADE, primary_key=True, serialize=False,
                    related_name='second_factor', to=settings.AUTH_USER_MODEL)),
                ('sealed_secret', models.TextField()),
                ('last_step', models.BigIntegerField()),
                ('failures', models.IntegerField(default=0)),
                ('recovery_digests', django.contrib.postgres.fields.ArrayField(
                    base_field=models.CharField(max_length=64), size=None)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={'db_table': 'second_factor'},
        ),
    ]
