"""What regular looks saw over time, alerts, and choices; raw samples become wider."""

import django.db.models.deletion
import django.utils.timezone
import replview.store.fields
from django.db import migrations, models


_COLUMNS = """
    bytes_stored bigint,
    write_lag_seconds float8,
    flush_lag_seconds float8,
    replay_lag_seconds float8,
    stored_after_p50_seconds float8,
    stored_after_p99_seconds float8,
    spill_txns bigint,
    spill_bytes bigint,
    stream_txns bigint,
    stream_bytes bigint,
    total_txns bigint,
    total_bytes bigint,
    batch_changes bigint,
    memory_bytes bigint
"""
_ADD = ", ".join(f"ADD COLUMN {line.strip().rstrip(',')}" for line in _COLUMNS.strip().splitlines())
_DROP = ", ".join(f"DROP COLUMN {line.split()[0]}" for line in _COLUMNS.strip().splitlines())

WIDER_SAMPLE = f"ALTER TABLE slot_sample {_ADD};"
NARROWER_SAMPLE = f"ALTER TABLE slot_sample {_DROP};"

_PERIOD = f"""
CREATE TABLE %s (
    slot_id bigint NOT NULL,
    sampled_at timestamptz NOT NULL,
    samples integer NOT NULL DEFAULT 1,
    current_lsn pg_lsn,
    restart_lsn pg_lsn,
    confirmed_flush_lsn pg_lsn,
    retained_wal_bytes bigint,
    unconfirmed_wal_bytes bigint,
    safe_wal_bytes bigint,
    wal_status text,
    active boolean,
    transactions_stored bigint,
    changes_stored bigint,
    {_COLUMNS},
    PRIMARY KEY (slot_id, sampled_at)
) PARTITION BY RANGE (sampled_at);
"""
# By the day, and by the month.
PERIODS = "".join(_PERIOD.replace("%s", name) for name in ("slot_sample_minute", "slot_sample_hour"))

SOURCE_SAMPLE = """
CREATE TABLE source_sample (
    source_id bigint NOT NULL,
    sampled_at timestamptz NOT NULL,
    reachable boolean NOT NULL,
    current_lsn pg_lsn,
    wal_directory_bytes bigint,
    prepared integer,
    oldest_prepared_seconds float8,
    running integer,
    oldest_running_seconds float8,
    took_seconds float8,
    PRIMARY KEY (source_id, sampled_at)
) PARTITION BY RANGE (sampled_at);
"""


class Migration(migrations.Migration):

    dependencies = [
        ('store', '0004_audit'),
    ]

    operations = [
        migrations.CreateModel(
            name='SlotSampleHour',
            fields=[
                ('slot_id', models.BigIntegerField()),
                ('sampled_at', models.DateTimeField()),
                ('current_lsn', replview.store.fields.LSNField(null=True)),
                ('restart_lsn', replview.store.fields.LSNField(null=True)),
                ('confirmed_flush_lsn', replview.store.fields.LSNField(null=True)),
                ('retained_wal_bytes', models.BigIntegerField(null=True)),
                ('unconfirmed_wal_bytes', models.BigIntegerField(null=True)),
                ('safe_wal_bytes', models.BigIntegerField(null=True)),
                ('wal_status', models.TextField(null=True)),
                ('active', models.BooleanField(null=True)),
                ('transactions_stored', models.BigIntegerField(null=True)),
                ('changes_stored', models.BigIntegerField(null=True)),
                ('bytes_stored', models.BigIntegerField(null=True)),
                ('write_lag_seconds', models.FloatField(null=True)),
                ('flush_lag_seconds', models.FloatField(null=True)),
                ('replay_lag_seconds', models.FloatField(null=True)),
                ('stored_after_p50_seconds', models.FloatField(null=True)),
                ('stored_after_p99_seconds', models.FloatField(null=True)),
                ('spill_txns', models.BigIntegerField(null=True)),
                ('spill_bytes', models.BigIntegerField(null=True)),
                ('stream_txns', models.BigIntegerField(null=True)),
                ('stream_bytes', models.BigIntegerField(null=True)),
                ('total_txns', models.BigIntegerField(null=True)),
                ('total_bytes', models.BigIntegerField(null=True)),
                ('batch_changes', models.BigIntegerField(null=True)),
                ('memory_bytes', models.BigIntegerField(null=True)),
                ('pk', models.CompositePrimaryKey('slot_id', 'sampled_at', blank=True, editable=False, primary_key=True, serialize=False)),
                ('samples', models.IntegerField(default=1)),
            ],
            options={
                'db_table': 'slot_sample_hour',
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='SlotSampleMinute',
            fields=[
                ('slot_id', models.BigIntegerField()),
                ('sampled_at', models.DateTimeField()),
                ('current_lsn', replview.store.fields.LSNField(null=True)),
                ('restart_lsn', replview.store.fields.LSNField(null=True)),
                ('confirmed_flush_lsn', replview.store.fields.LSNField(null=True)),
                ('retained_wal_bytes', models.BigIntegerField(null=True)),
                ('unconfirmed_wal_bytes', models.BigIntegerField(null=True)),
                ('safe_wal_bytes', models.BigIntegerField(null=True)),
                ('wal_status', models.TextField(null=True)),
                ('active', models.BooleanField(null=True)),
                ('transactions_stored', models.BigIntegerField(null=True)),
                ('changes_stored', models.BigIntegerField(null=True)),
                ('bytes_stored', models.BigIntegerField(null=True)),
                ('write_lag_seconds', models.FloatField(null=True)),
                ('flush_lag_seconds', models.FloatField(null=True)),
                ('replay_lag_seconds', models.FloatField(null=True)),
                ('stored_after_p50_seconds', models.FloatField(null=True)),
                ('stored_after_p99_seconds', models.FloatField(null=True)),
                ('spill_txns', models.BigIntegerField(null=True)),
                ('spill_bytes', models.BigIntegerField(null=True)),
                ('stream_txns', models.BigIntegerField(null=True)),
                ('stream_bytes', models.BigIntegerField(null=True)),
                ('total_txns', models.BigIntegerField(null=True)),
                ('total_bytes', models.BigIntegerField(null=True)),
                ('batch_changes', models.BigIntegerField(null=True)),
                ('memory_bytes', models.BigIntegerField(null=True)),
                ('pk', models.CompositePrimaryKey('slot_id', 'sampled_at', blank=True, editable=False, primary_key=True, serialize=False)),
                ('samples', models.IntegerField(default=1)),
            ],
            options={
                'db_table': 'slot_sample_minute',
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='SourceSample',
            fields=[
                ('pk', models.CompositePrimaryKey('source_id', 'sampled_at', blank=True, editable=False, primary_key=True, serialize=False)),
                ('source_id', models.BigIntegerField()),
                ('sampled_at', models.DateTimeField()),
                ('reachable', models.BooleanField(default=True)),
                ('current_lsn', replview.store.fields.LSNField(null=True)),
                ('wal_directory_bytes', models.BigIntegerField(null=True)),
                ('prepared', models.IntegerField(null=True)),
                ('oldest_prepared_seconds', models.FloatField(null=True)),
                ('running', models.IntegerField(null=True)),
                ('oldest_running_seconds', models.FloatField(null=True)),
                ('took_seconds', models.FloatField(null=True)),
            ],
            options={
                'db_table': 'source_sample',
                'managed': False,
            },
        ),
        migrations.CreateModel(
            name='MinuteMark',
            fields=[
                ('incarnation_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('rolled_seq', models.BigIntegerField(default=0)),
            ],
            options={
                'db_table': 'minute_mark',
            },
        ),
        migrations.CreateModel(
            name='SampleMark',
            fields=[
                ('period', models.TextField(primary_key=True, serialize=False)),
                ('until', models.DateTimeField()),
            ],
            options={
                'db_table': 'sample_mark',
            },
        ),
        migrations.CreateModel(
            name='Setting',
            fields=[
                ('name', models.CharField(max_length=60, primary_key=True, serialize=False)),
                ('value', models.JSONField()),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('changed_by', models.TextField(blank=True, default='')),
            ],
            options={
                'db_table': 'setting',
            },
        ),
        migrations.CreateModel(
            name='TransactionSizeMinute',
            fields=[
                ('pk', models.CompositePrimaryKey('incarnation_id', 'minute', 'power', blank=True, editable=False, primary_key=True, serialize=False)),
                ('incarnation_id', models.BigIntegerField()),
                ('minute', models.DateTimeField()),
                ('power', models.SmallIntegerField()),
                ('transactions', models.BigIntegerField(default=0)),
                ('size_bytes', models.BigIntegerField(default=0)),
            ],
            options={
                'db_table': 'transaction_size_minute',
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100, unique=True)),
                ('sealed_url', models.TextField()),
                ('host', models.TextField(default='')),
                ('format', models.CharField(choices=[('json', 'Json'), ('slack', 'Slack')], default='json', max_length=5)),
                ('sealed_secret', models.TextField(blank=True, default='')),
                ('enabled', models.BooleanField(default=True)),
                ('allow_private', models.BooleanField(default=False)),
                ('severities', models.JSONField(blank=True, default=list)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('created_by', models.TextField(blank=True, default='')),
            ],
            options={
                'db_table': 'webhook',
                'ordering': ['name'],
            },
        ),
        migrations.AddField(
            model_name='slot',
            name='bytes_stored',
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='slot',
            name='heartbeat_seconds',
            field=models.IntegerField(null=True),
        ),
        migrations.AddField(
            model_name='slot',
            name='heartbeat_written_at',
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name='slot',
            name='protect',
            field=models.CharField(choices=[('database', 'Database'), ('record', 'Record')], default='database', max_length=8),
        ),
        migrations.AddField(
            model_name='slot',
            name='receiver_facts',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name='slot',
            name='wal_budget_bytes',
            field=models.BigIntegerField(null=True),
        ),
        migrations.CreateModel(
            name='RelationMinute',
            fields=[
                ('pk', models.CompositePrimaryKey('incarnation_id', 'relation_id', 'minute', blank=True, editable=False, primary_key=True, serialize=False)),
                ('incarnation_id', models.BigIntegerField()),
                ('relation_id', models.BigIntegerField()),
                ('minute', models.DateTimeField()),
                ('transactions', models.BigIntegerField(default=0)),
                ('changes', models.BigIntegerField(default=0)),
                ('size_bytes', models.BigIntegerField(default=0)),
            ],
            options={
                'db_table': 'relation_minute',
                'indexes': [models.Index(fields=['incarnation_id', 'minute'], name='relation_minute_by_time')],
            },
        ),
        migrations.CreateModel(
            name='WatchedSlot',
            fields=[
                ('id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('name', models.TextField()),
                ('slot_type', models.TextField(default='logical')),
                ('plugin', models.TextField(null=True)),
                ('database', models.TextField(null=True)),
                ('temporary', models.BooleanField(null=True)),
                ('first_seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('last_seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('gone_at', models.DateTimeField(null=True)),
                ('inactive_since', models.DateTimeField(null=True)),
                ('facts', models.JSONField(default=dict)),
                ('slot', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='watched', to='store.slot')),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='watched_slots', to='store.source')),
            ],
            options={
                'db_table': 'watched_slot',
                'ordering': ['source_id', 'name'],
            },
        ),
        migrations.CreateModel(
            name='AlertRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('retained_wal', 'Retained Wal'), ('retained_share', 'Retained Share'), ('time_to_loss', 'Time To Loss'), ('lag', 'Lag'), ('receiver_down', 'Receiver Down'), ('slot_lost', 'Slot Lost'), ('slot_inactive', 'Slot Inactive'), ('prepared_age', 'Prepared Age'), ('long_transaction', 'Long Transaction'), ('source_unreachable', 'Source Unreachable'), ('schema_change', 'Schema Change'), ('poison_change', 'Poison Change'), ('store_size', 'Store Size'), ('unsafe_failover', 'Unsafe Failover')], max_length=20)),
                ('name', models.TextField()),
                ('severity', models.CharField(choices=[('now', 'Now'), ('look', 'Look')], default='look', max_length=4)),
                ('threshold', models.FloatField(null=True)),
                ('clear_threshold', models.FloatField(null=True)),
                ('hold_seconds', models.FloatField(default=0)),
                ('clear_seconds', models.FloatField(default=0)),
                ('enabled', models.BooleanField(default=True)),
                ('built_in', models.BooleanField(default=False)),
                ('key', models.CharField(blank=True, default='', max_length=40)),
                ('tables', models.JSONField(blank=True, default=list)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('changed_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('changed_by', models.TextField(blank=True, default='')),
                ('overrides', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to='store.alertrule')),
                ('slot', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to='store.watchedslot')),
            ],
            options={
                'db_table': 'alert_rule',
                'ordering': ['id'],
            },
        ),
        migrations.CreateModel(
            name='Alert',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('subject', models.TextField()),
                ('state', models.CharField(choices=[('pending', 'Pending'), ('firing', 'Firing'), ('cleared', 'Cleared')], default='pending', max_length=8)),
                ('began_at', models.DateTimeField()),
                ('fired_at', models.DateTimeField(null=True)),
                ('over_since', models.DateTimeField(null=True)),
                ('cleared_at', models.DateTimeField(null=True)),
                ('message', models.TextField(default='')),
                ('value_fired', models.FloatField(null=True)),
                ('value_worst', models.FloatField(null=True)),
                ('value_last', models.FloatField(null=True)),
                ('rule_was', models.JSONField(default=dict)),
                ('detail', models.JSONField(default=dict)),
                ('seen_at', models.DateTimeField(null=True)),
                ('seen_by', models.TextField(blank=True, default='')),
                ('source', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to='store.source')),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='alerts', to='store.alertrule')),
                ('slot', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to='store.watchedslot')),
            ],
            options={
                'db_table': 'alert',
            },
        ),
        migrations.CreateModel(
            name='WatchedSubscription',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.TextField()),
                ('first_seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('last_seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('gone_at', models.DateTimeField(null=True)),
                ('facts', models.JSONField(default=dict)),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to='store.source')),
            ],
            options={
                'db_table': 'watched_subscription',
            },
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('event', models.TextField()),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('attempts', models.IntegerField(default=0)),
                ('next_try_at', models.DateTimeField(default=django.utils.timezone.now, null=True)),
                ('delivered_at', models.DateTimeField(null=True)),
                ('given_up_at', models.DateTimeField(null=True)),
                ('problem', models.TextField(blank=True, default='')),
                ('status', models.IntegerField(null=True)),
                ('alert', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, to='store.alert')),
                ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='store.webhook')),
            ],
            options={
                'db_table': 'delivery',
            },
        ),
        migrations.AddConstraint(
            model_name='watchedslot',
            constraint=models.UniqueConstraint(fields=('source', 'name'), name='watched_slot_by_name'),
        ),
        migrations.AddIndex(
            model_name='alert',
            index=models.Index(fields=['-fired_at'], name='alert_by_time'),
        ),
        migrations.AddIndex(
            model_name='alert',
            index=models.Index(condition=models.Q(('state__in', ['pending', 'firing'])), fields=['state'], name='alert_open'),
        ),
        migrations.AddConstraint(
            model_name='alert',
            constraint=models.UniqueConstraint(condition=models.Q(('state__in', ['pending', 'firing'])), fields=('rule', 'subject'), name='alert_once_open'),
        ),
        migrations.AddConstraint(
            model_name='watchedsubscription',
            constraint=models.UniqueConstraint(fields=('source', 'name'), name='watched_subscription_by_name'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('delivered_at', None), ('given_up_at', None)), fields=['next_try_at'], name='delivery_waiting'),
        ),
        migrations.RunSQL(WIDER_SAMPLE, NARROWER_SAMPLE),
        # Written anew at every look: room for that on the same page.
        migrations.RunSQL(
            "ALTER TABLE watched_slot SET (fillfactor = 50);"
            "ALTER TABLE source_look SET (fillfactor = 50);",
            "ALTER TABLE source_look RESET (fillfactor);",
        ),
        migrations.RunSQL(PERIODS, "DROP TABLE slot_sample_minute, slot_sample_hour;"),
        migrations.RunSQL(SOURCE_SAMPLE, "DROP TABLE source_sample;"),
    ]
