"""The two partitioned tables; Django knows them as unmanaged models."""

from django.db import migrations

CHANGE = """
CREATE SEQUENCE transaction_id_block INCREMENT BY 20000;

CREATE TABLE change (
    transaction_id bigint NOT NULL,
    seq integer NOT NULL,
    lsn pg_lsn NOT NULL,
    subxid bigint,
    relation_id bigint,
    version_id bigint,
    op "char" NOT NULL,
    old_kind "char",
    old jsonb,
    new jsonb,
    key_hash bigint,
    old_key_hash bigint,
    PRIMARY KEY (transaction_id, seq)
) PARTITION BY RANGE (transaction_id);

-- Row history: every change of one row, in order.
CREATE INDEX change_row_history ON change (relation_id, key_hash, lsn, seq);
-- And where a change moved the key, the row it came from.
CREATE INDEX change_moved_key ON change (relation_id, old_key_hash) WHERE old_key_hash IS NOT NULL;
"""

SLOT_SAMPLE = """
CREATE TABLE slot_sample (
    slot_id bigint NOT NULL,
    sampled_at timestamptz NOT NULL,
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
    detail jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (slot_id, sampled_at)
) PARTITION BY RANGE (sampled_at);
"""


class Migration(migrations.Migration):
    dependencies = [("store", "0001_initial")]

    operations = [
        migrations.RunSQL(CHANGE, "DROP TABLE change; DROP SEQUENCE transaction_id_block;"),
        migrations.RunSQL(SLOT_SAMPLE, "DROP TABLE slot_sample;"),
    ]
