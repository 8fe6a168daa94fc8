"""Erasures: persons erased from the record, by whom and why."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("store", "0012_access_record")]

    operations = [
        migrations.CreateModel(
            name='Erasure',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('slot_name', models.TextField()),
                ('tables', models.JSONField(default=list)),
                ('keys', models.IntegerField(default=0)),
                ('columns', models.JSONField(default=list)),
                ('digests', models.JSONField(default=list)),
                ('names_actor', models.BooleanField(default=False)),
                ('reason', models.TextField(blank=True, default='')),
                ('requested_by', models.TextField()),
                ('requested_how', models.TextField(default='page')),
                ('requested_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('confirmed_by', models.TextField(blank=True, default='')),
                ('confirmed_at', models.DateTimeField(null=True)),
                ('state', models.CharField(choices=[('looking', 'Looking'), ('looked', 'Looked'), ('waiting', 'Waiting'), ('running', 'Running'), ('unfinished', 'Unfinished'), ('done', 'Done'), ('dropped', 'Dropped')], default='looking', max_length=10)),
                ('started_at', models.DateTimeField(null=True)),
                ('heartbeat_at', models.DateTimeField(null=True)),
                ('next_try_at', models.DateTimeField(null=True)),
                ('finished_at', models.DateTimeField(null=True)),
                ('attempts', models.IntegerField(default=0)),
                ('step', models.TextField(blank=True, default='')),
                ('sealed_plan', models.TextField(blank=True, default='')),
                ('found', models.JSONField(default=dict)),
                ('erased', models.JSONField(default=dict)),
                ('roots', models.JSONField(default=list)),
                ('problem_cause', models.TextField(blank=True, default='')),
                ('problem_remedy', models.TextField(blank=True, default='')),
                ('slot', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='erasures', to='store.slot')),
            ],
            options={
                'db_table': 'erasure',
                'ordering': ['-id'],
                'indexes': [models.Index(condition=models.Q(('state__in', ['looking', 'waiting', 'running', 'unfinished'])), fields=['id'], name='erasure_waiting')],
            },
        ),
    ]
