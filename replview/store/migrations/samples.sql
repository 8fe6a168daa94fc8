-- What a look at a source saw: in partitions by time.
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
    memory_bytes bigint,
    PRIMARY KEY (slot_id, sampled_at)
) PARTITION BY RANGE (sampled_at);

-- Sums of these by the minute, in partitions by the day, and by the hour, by the month.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['slot_sample_minute', 'slot_sample_hour'] LOOP
        EXECUTE format('
            CREATE TABLE %I (
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
                memory_bytes bigint,
                PRIMARY KEY (slot_id, sampled_at)
            ) PARTITION BY RANGE (sampled_at)', name);
    END LOOP;
END $$;

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
    checkpointed_at timestamptz,
    PRIMARY KEY (source_id, sampled_at)
) PARTITION BY RANGE (sampled_at);

-- Written anew at every look: room for that on the same page.
ALTER TABLE watched_slot SET (fillfactor = 50);
ALTER TABLE source_look SET (fillfactor = 50);
