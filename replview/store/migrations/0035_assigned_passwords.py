"""Passwords that an admin set: their owners change them at the next sign-in."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('store', '0034_no_row_filters_in_access_record'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]
    operations = [
        migrations.CreateModel(
            'AssignedPassword',
            [
                ('user', models.OneToOneField(
                    on_delete=models.CASCADE, primary_key=True, serialize=False,
                    related_name='assigned_password', to=settings.AUTH_USER_MODEL)),
                ('expires_at', models.DateTimeField()),
            ],
            options={'db_table': 'assigned_password'},
        ),
    ]
