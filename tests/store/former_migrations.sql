-- A store as the twenty former migrations left it (commit 5af5d15), by pg_dump --column-inserts;
-- without comments, settings, content types and permissions.
SET check_function_bodies = false;
CREATE FUNCTION public.access_record_add(of_action text, of_user_id bigint, of_user_name text, of_via text, of_address text, of_request_id text, of_page text, of_subject text, of_source_id bigint, of_relation_ids bigint[], of_tables text[], of_details jsonb) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    moment timestamptz := clock_timestamp();
    from_source bigint := of_source_id;
BEGIN
    PERFORM access_record_make_month(moment);
    IF from_source IS NULL AND cardinality(of_relation_ids) > 0 THEN
        SELECT s.source_id INTO from_source FROM relation r JOIN slot s ON s.id = r.slot_id
        WHERE r.id = of_relation_ids[1];
    END IF;
    INSERT INTO access_record (at, action, user_id, user_name, via, address, request_id, page,
                               subject, source_id, source_name, relation_ids, tables, details)
    VALUES (moment, of_action, of_user_id, of_user_name, of_via, of_address, of_request_id,
            of_page, of_subject, from_source,
            coalesce((SELECT name FROM source WHERE id = from_source), ''), of_relation_ids,
            of_tables || coalesce((
                SELECT array_agg(DISTINCT r.schema || '.' || r."table") FROM relation r
                WHERE r.id = ANY (of_relation_ids)), '{}'),
            of_details);
END $$;
CREATE FUNCTION public.access_record_make_month(moment timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    AS $$
DECLARE
    first date := date_trunc('month', moment AT TIME ZONE 'UTC')::date;
    name text := 'access_record_' || to_char(first, 'YYYYMM');
BEGIN
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(hashtextextended('access_record', 0));
    IF to_regclass(name) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format(
        'CREATE TABLE %I (LIKE access_record INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name);
    EXECUTE format(
        'CREATE TRIGGER access_record_no_truncate BEFORE TRUNCATE ON %I '
        'FOR EACH STATEMENT EXECUTE FUNCTION access_record_refuse()', name);
    EXECUTE format(
        'ALTER TABLE access_record ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
        first::timestamp AT TIME ZONE 'UTC',
        (first + interval '1 month')::timestamp AT TIME ZONE 'UTC');
END $$;
CREATE FUNCTION public.access_record_refuse() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    RAISE EXCEPTION 'the access record is append-only: % is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'Whole months are forgotten by: replview access forget --before DATE --yes';
END $$;
CREATE TABLE public.aborted_subtransaction (
    transaction_id bigint NOT NULL,
    subxid bigint NOT NULL,
    abort_lsn pg_lsn,
    aborted_at timestamp with time zone,
    changes bigint,
    swept boolean NOT NULL
);
CREATE TABLE public.access_record (
    id bigint NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    action text NOT NULL,
    user_id bigint,
    user_name text DEFAULT ''::text NOT NULL,
    via text NOT NULL,
    address text DEFAULT ''::text NOT NULL,
    request_id text DEFAULT ''::text NOT NULL,
    page text DEFAULT ''::text NOT NULL,
    subject text DEFAULT ''::text NOT NULL,
    source_id bigint,
    source_name text DEFAULT ''::text NOT NULL,
    relation_ids bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    tables text[] DEFAULT '{}'::text[] NOT NULL,
    details jsonb DEFAULT '{}'::jsonb NOT NULL
)
PARTITION BY RANGE (at);
CREATE TABLE public.access_record_202611 (
    id bigint CONSTRAINT access_record_id_not_null NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() CONSTRAINT access_record_at_not_null NOT NULL,
    action text CONSTRAINT access_record_action_not_null NOT NULL,
    user_id bigint,
    user_name text DEFAULT ''::text CONSTRAINT access_record_user_name_not_null NOT NULL,
    via text CONSTRAINT access_record_via_not_null NOT NULL,
    address text DEFAULT ''::text CONSTRAINT access_record_address_not_null NOT NULL,
    request_id text DEFAULT ''::text CONSTRAINT access_record_request_id_not_null NOT NULL,
    page text DEFAULT ''::text CONSTRAINT access_record_page_not_null NOT NULL,
    subject text DEFAULT ''::text CONSTRAINT access_record_subject_not_null NOT NULL,
    source_id bigint,
    source_name text DEFAULT ''::text CONSTRAINT access_record_source_name_not_null NOT NULL,
    relation_ids bigint[] DEFAULT '{}'::bigint[] CONSTRAINT access_record_relation_ids_not_null NOT NULL,
    tables text[] DEFAULT '{}'::text[] CONSTRAINT access_record_tables_not_null NOT NULL,
    details jsonb DEFAULT '{}'::jsonb CONSTRAINT access_record_details_not_null NOT NULL
);
CREATE TABLE public.access_record_202612 (
    id bigint CONSTRAINT access_record_id_not_null NOT NULL,
    at timestamp with time zone DEFAULT clock_timestamp() CONSTRAINT access_record_at_not_null NOT NULL,
    action text CONSTRAINT access_record_action_not_null NOT NULL,
    user_id bigint,
    user_name text DEFAULT ''::text CONSTRAINT access_record_user_name_not_null NOT NULL,
    via text CONSTRAINT access_record_via_not_null NOT NULL,
    address text DEFAULT ''::text CONSTRAINT access_record_address_not_null NOT NULL,
    request_id text DEFAULT ''::text CONSTRAINT access_record_request_id_not_null NOT NULL,
    page text DEFAULT ''::text CONSTRAINT access_record_page_not_null NOT NULL,
    subject text DEFAULT ''::text CONSTRAINT access_record_subject_not_null NOT NULL,
    source_id bigint,
    source_name text DEFAULT ''::text CONSTRAINT access_record_source_name_not_null NOT NULL,
    relation_ids bigint[] DEFAULT '{}'::bigint[] CONSTRAINT access_record_relation_ids_not_null NOT NULL,
    tables text[] DEFAULT '{}'::text[] CONSTRAINT access_record_tables_not_null NOT NULL,
    details jsonb DEFAULT '{}'::jsonb CONSTRAINT access_record_details_not_null NOT NULL
);
ALTER TABLE public.access_record ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.access_record_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.activity_mark (
    incarnation_id bigint NOT NULL,
    rolled_seq bigint NOT NULL
);
CREATE TABLE public.actor_activity (
    incarnation_id bigint NOT NULL,
    actor text NOT NULL,
    grade text NOT NULL,
    day date NOT NULL,
    relation_id bigint NOT NULL,
    transactions bigint NOT NULL,
    inserts bigint NOT NULL,
    updates bigint NOT NULL,
    deletes bigint NOT NULL,
    truncates bigint NOT NULL,
    messages bigint NOT NULL,
    first_time timestamp with time zone,
    last_time timestamp with time zone
);
CREATE TABLE public.alert (
    id bigint NOT NULL,
    subject text NOT NULL,
    state character varying(8) NOT NULL,
    began_at timestamp with time zone NOT NULL,
    fired_at timestamp with time zone,
    over_since timestamp with time zone,
    cleared_at timestamp with time zone,
    message text NOT NULL,
    value_fired double precision,
    value_worst double precision,
    value_last double precision,
    rule_was jsonb NOT NULL,
    detail jsonb NOT NULL,
    seen_at timestamp with time zone,
    seen_by text NOT NULL,
    source_id bigint,
    rule_id bigint CONSTRAINT alert_rule_id_not_null1 NOT NULL,
    slot_id bigint
);
ALTER TABLE public.alert ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.alert_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.alert_rule (
    id bigint NOT NULL,
    kind character varying(20) NOT NULL,
    name text NOT NULL,
    severity character varying(4) NOT NULL,
    threshold double precision,
    clear_threshold double precision,
    hold_seconds double precision NOT NULL,
    clear_seconds double precision NOT NULL,
    enabled boolean NOT NULL,
    built_in boolean NOT NULL,
    key character varying(40) NOT NULL,
    tables jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    changed_by text NOT NULL,
    overrides_id bigint,
    slot_id bigint
);
ALTER TABLE public.alert_rule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.alert_rule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.api_token (
    id bigint NOT NULL,
    name character varying(100) NOT NULL,
    digest character varying(64) NOT NULL,
    hint character varying(12) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_used_at timestamp with time zone,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    user_id integer NOT NULL,
    scope character varying(7) DEFAULT 'read'::character varying NOT NULL
);
ALTER TABLE public.api_token ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.api_token_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.archive_mark (
    id bigint NOT NULL,
    target text NOT NULL,
    through_seq bigint NOT NULL,
    through_lsn pg_lsn,
    through_time timestamp with time zone,
    since_seq bigint,
    since_lsn pg_lsn,
    since_time timestamp with time zone,
    transactions bigint NOT NULL,
    changes bigint NOT NULL,
    size_bytes bigint NOT NULL,
    moved_at timestamp with time zone,
    checked_at timestamp with time zone,
    problem text NOT NULL,
    remedy text NOT NULL,
    incarnation_id bigint NOT NULL,
    home text DEFAULT ''::text NOT NULL
);
ALTER TABLE public.archive_mark ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.archive_mark_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.archived_run (
    first_id bigint NOT NULL,
    last_id bigint NOT NULL,
    first_seq bigint NOT NULL,
    incarnation_id bigint NOT NULL
);
CREATE TABLE public.auth_group (
    id integer NOT NULL,
    name character varying(150) NOT NULL
);
ALTER TABLE public.auth_group ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_group_permissions (
    id bigint NOT NULL,
    group_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_group_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_group_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_permission (
    id integer NOT NULL,
    name character varying(255) NOT NULL,
    content_type_id integer NOT NULL,
    codename character varying(100) NOT NULL
);
ALTER TABLE public.auth_permission ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_permission_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_user (
    id integer NOT NULL,
    password character varying(128) NOT NULL,
    last_login timestamp with time zone,
    is_superuser boolean NOT NULL,
    username character varying(150) NOT NULL,
    first_name character varying(150) NOT NULL,
    last_name character varying(150) NOT NULL,
    email character varying(254) NOT NULL,
    is_staff boolean NOT NULL,
    is_active boolean NOT NULL,
    date_joined timestamp with time zone NOT NULL
);
CREATE TABLE public.auth_user_groups (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    group_id integer NOT NULL
);
ALTER TABLE public.auth_user_groups ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_groups_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE public.auth_user ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.auth_user_user_permissions (
    id bigint NOT NULL,
    user_id integer NOT NULL,
    permission_id integer NOT NULL
);
ALTER TABLE public.auth_user_user_permissions ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.auth_user_user_permissions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.axes_accessattempt (
    id integer NOT NULL,
    user_agent character varying(255) NOT NULL,
    ip_address inet,
    username character varying(255),
    http_accept character varying(1025) NOT NULL,
    path_info character varying(255) NOT NULL,
    attempt_time timestamp with time zone NOT NULL,
    get_data text NOT NULL,
    post_data text NOT NULL,
    failures_since_start integer NOT NULL,
    CONSTRAINT axes_accessattempt_failures_since_start_check CHECK ((failures_since_start >= 0))
);
ALTER TABLE public.axes_accessattempt ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.axes_accessattempt_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.axes_accessattemptexpiration (
    access_attempt_id integer NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE TABLE public.axes_accessfailurelog (
    id integer NOT NULL,
    user_agent character varying(255) NOT NULL,
    ip_address inet,
    username character varying(255),
    http_accept character varying(1025) NOT NULL,
    path_info character varying(255) NOT NULL,
    attempt_time timestamp with time zone NOT NULL,
    locked_out boolean NOT NULL
);
ALTER TABLE public.axes_accessfailurelog ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.axes_accessfailurelog_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.axes_accesslog (
    id integer NOT NULL,
    user_agent character varying(255) NOT NULL,
    ip_address inet,
    username character varying(255),
    http_accept character varying(1025) NOT NULL,
    path_info character varying(255) NOT NULL,
    attempt_time timestamp with time zone NOT NULL,
    logout_time timestamp with time zone,
    session_hash character varying(64) NOT NULL
);
ALTER TABLE public.axes_accesslog ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.axes_accesslog_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.baseline (
    id bigint NOT NULL,
    schema text NOT NULL,
    "table" text NOT NULL,
    state character varying(10) NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    requested_by text NOT NULL,
    rows_per_second integer,
    started_at timestamp with time zone,
    heartbeat_at timestamp with time zone,
    finished_at timestamp with time zone,
    lsn pg_lsn,
    transaction_id bigint,
    rows bigint NOT NULL,
    estimated_rows bigint,
    problem_code text NOT NULL,
    problem_cause text NOT NULL,
    problem_remedy text NOT NULL,
    incarnation_id bigint,
    slot_id bigint NOT NULL
);
ALTER TABLE public.baseline ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.baseline_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.change (
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
    old_key_hash bigint
)
PARTITION BY RANGE (transaction_id);
CREATE TABLE public.delivery (
    id bigint NOT NULL,
    event text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    attempts integer NOT NULL,
    next_try_at timestamp with time zone,
    delivered_at timestamp with time zone,
    given_up_at timestamp with time zone,
    problem text NOT NULL,
    status integer,
    alert_id bigint,
    webhook_id bigint NOT NULL
);
ALTER TABLE public.delivery ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.delivery_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_content_type (
    id integer NOT NULL,
    app_label character varying(100) NOT NULL,
    model character varying(100) NOT NULL
);
ALTER TABLE public.django_content_type ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_content_type_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_migrations (
    id bigint NOT NULL,
    app character varying(255) NOT NULL,
    name character varying(255) NOT NULL,
    applied timestamp with time zone NOT NULL
);
ALTER TABLE public.django_migrations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.django_migrations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.django_session (
    session_key character varying(40) NOT NULL,
    session_data text NOT NULL,
    expire_date timestamp with time zone NOT NULL
);
CREATE TABLE public.erasure (
    id bigint NOT NULL,
    slot_name text NOT NULL,
    tables jsonb NOT NULL,
    keys integer NOT NULL,
    columns jsonb NOT NULL,
    digests jsonb NOT NULL,
    names_actor boolean NOT NULL,
    reason text NOT NULL,
    requested_by text NOT NULL,
    requested_how text NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    confirmed_by text NOT NULL,
    confirmed_at timestamp with time zone,
    state character varying(10) NOT NULL,
    started_at timestamp with time zone,
    heartbeat_at timestamp with time zone,
    next_try_at timestamp with time zone,
    finished_at timestamp with time zone,
    attempts integer NOT NULL,
    step text NOT NULL,
    sealed_plan text NOT NULL,
    found jsonb NOT NULL,
    erased jsonb NOT NULL,
    roots jsonb NOT NULL,
    problem_cause text NOT NULL,
    problem_remedy text NOT NULL,
    slot_id bigint
);
ALTER TABLE public.erasure ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.erasure_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.export (
    id bigint NOT NULL,
    slot_name text NOT NULL,
    name character varying(100) NOT NULL,
    slice jsonb NOT NULL,
    words jsonb NOT NULL,
    target text NOT NULL,
    anywhere boolean NOT NULL,
    spark text NOT NULL,
    requested_by text NOT NULL,
    requested_how character varying(7) NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    state character varying(9) NOT NULL,
    started_at timestamp with time zone,
    heartbeat_at timestamp with time zone,
    finished_at timestamp with time zone,
    attempts integer NOT NULL,
    worker text NOT NULL,
    job_pid integer,
    rows bigint,
    total_rows bigint,
    files bigint,
    size_bytes bigint,
    seconds_left double precision,
    result jsonb,
    problem_cause text NOT NULL,
    problem_remedy text NOT NULL,
    log_path text NOT NULL,
    slot_id bigint
);
ALTER TABLE public.export ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.export_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.history_block (
    incarnation_id bigint NOT NULL,
    block bigint NOT NULL,
    first_time timestamp with time zone,
    last_time timestamp with time zone,
    first_lsn pg_lsn,
    last_lsn pg_lsn,
    transactions bigint NOT NULL,
    inserts bigint NOT NULL,
    updates bigint NOT NULL,
    deletes bigint NOT NULL,
    truncates bigint NOT NULL,
    messages bigint NOT NULL,
    size_bytes bigint NOT NULL,
    max_changes bigint NOT NULL,
    max_size_bytes bigint NOT NULL,
    states jsonb NOT NULL
);
CREATE TABLE public.history_job (
    id bigint NOT NULL,
    job character varying(40) NOT NULL,
    root text NOT NULL,
    anywhere boolean NOT NULL,
    words jsonb NOT NULL,
    requested_by text NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    state character varying(9) NOT NULL,
    started_at timestamp with time zone,
    heartbeat_at timestamp with time zone,
    finished_at timestamp with time zone,
    attempts integer NOT NULL,
    worker text NOT NULL,
    job_pid integer,
    output text NOT NULL,
    result jsonb,
    problem_cause text NOT NULL,
    problem_remedy text NOT NULL,
    log_path text NOT NULL
);
ALTER TABLE public.history_job ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.history_job_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.identity (
    id bigint NOT NULL,
    issuer text NOT NULL,
    subject text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    user_id integer NOT NULL
);
ALTER TABLE public.identity ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.identity_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.kept_day (
    id bigint NOT NULL,
    day date NOT NULL,
    transactions bigint NOT NULL,
    changes bigint NOT NULL,
    size_bytes bigint NOT NULL,
    store_bytes bigint,
    first_seq bigint,
    last_seq bigint,
    incarnation_id bigint NOT NULL
);
ALTER TABLE public.kept_day ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.kept_day_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.large_value (
    transaction_id bigint NOT NULL,
    seq integer NOT NULL,
    side text NOT NULL,
    "column" text NOT NULL,
    piece integer NOT NULL,
    content text NOT NULL
);
CREATE TABLE public.mask_rule (
    id bigint NOT NULL,
    table_pattern text NOT NULL,
    column_pattern text NOT NULL,
    type_pattern text NOT NULL,
    "when" character varying(7) NOT NULL,
    note text NOT NULL,
    created_by text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    source_id bigint
);
ALTER TABLE public.mask_rule ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.mask_rule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.minute_mark (
    incarnation_id bigint NOT NULL,
    rolled_seq bigint NOT NULL
);
CREATE TABLE public.publication_look (
    id bigint NOT NULL,
    first_seen_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    digest text NOT NULL,
    facts jsonb NOT NULL,
    slot_id bigint NOT NULL
);
ALTER TABLE public.publication_look ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.publication_look_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.quarantine (
    id bigint NOT NULL,
    found_at timestamp with time zone NOT NULL,
    xid bigint,
    gid text,
    final_lsn pg_lsn,
    lsn pg_lsn,
    relation text NOT NULL,
    tag text NOT NULL,
    raw bytea NOT NULL,
    raw_bytes bigint NOT NULL,
    cause text NOT NULL,
    remedy text NOT NULL,
    decision character varying(5) NOT NULL,
    decided_by text NOT NULL,
    decided_at timestamp with time zone,
    settled_at timestamp with time zone,
    incarnation_id bigint NOT NULL,
    slot_id bigint NOT NULL
);
ALTER TABLE public.quarantine ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.quarantine_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.relation (
    id bigint NOT NULL,
    system_identifier text NOT NULL,
    oid bigint NOT NULL,
    schema text NOT NULL,
    "table" text NOT NULL,
    current_version_id bigint,
    slot_id bigint NOT NULL
);
CREATE TABLE public.relation_activity (
    relation_id bigint NOT NULL,
    incarnation_id bigint NOT NULL,
    block bigint NOT NULL,
    version_id bigint NOT NULL,
    transactions bigint NOT NULL,
    inserts bigint NOT NULL,
    updates bigint NOT NULL,
    deletes bigint NOT NULL,
    truncates bigint NOT NULL,
    snapshots bigint NOT NULL
);
ALTER TABLE public.relation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.relation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.relation_minute (
    incarnation_id bigint NOT NULL,
    relation_id bigint NOT NULL,
    minute timestamp with time zone NOT NULL,
    transactions bigint NOT NULL,
    changes bigint NOT NULL,
    size_bytes bigint NOT NULL
);
CREATE TABLE public.relation_version (
    id bigint NOT NULL,
    number integer NOT NULL,
    digest text NOT NULL,
    schema text NOT NULL,
    "table" text NOT NULL,
    replica_identity text NOT NULL,
    columns jsonb NOT NULL,
    key_columns jsonb NOT NULL,
    first_lsn pg_lsn,
    first_xid bigint,
    first_seen_at timestamp with time zone NOT NULL,
    intervals jsonb NOT NULL,
    relation_id bigint NOT NULL
);
ALTER TABLE public.relation_version ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.relation_version_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.rights_grant (
    id bigint NOT NULL,
    tables text[] NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_by text NOT NULL,
    group_id integer,
    source_id bigint,
    user_id integer,
    CONSTRAINT grant_to_one CHECK ((((group_id IS NULL) AND (user_id IS NOT NULL)) OR ((group_id IS NOT NULL) AND (user_id IS NULL))))
);
ALTER TABLE public.rights_grant ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.rights_grant_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.sample_mark (
    period text NOT NULL,
    until timestamp with time zone NOT NULL
);
CREATE TABLE public.saved_filter (
    id bigint NOT NULL,
    page text NOT NULL,
    name character varying(100) NOT NULL,
    query text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    user_id integer NOT NULL
);
ALTER TABLE public.saved_filter ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.saved_filter_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.setting (
    name character varying(60) NOT NULL,
    value jsonb NOT NULL,
    changed_at timestamp with time zone NOT NULL,
    changed_by text NOT NULL
);
CREATE TABLE public.setup_code (
    id bigint NOT NULL,
    digest character varying(64) NOT NULL,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    used_at timestamp with time zone
);
ALTER TABLE public.setup_code ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.setup_code_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.slot (
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    plugin text NOT NULL,
    publications text[] NOT NULL,
    options jsonb NOT NULL,
    owned boolean NOT NULL,
    temporary boolean NOT NULL,
    column_rules jsonb NOT NULL,
    keep_aborted boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    desired character varying(12) NOT NULL,
    epoch bigint NOT NULL,
    lease_owner text NOT NULL,
    heartbeat_at timestamp with time zone,
    state character varying(14) NOT NULL,
    state_since timestamp with time zone NOT NULL,
    problem_code text NOT NULL,
    problem_cause text NOT NULL,
    problem_remedy text NOT NULL,
    retry_at timestamp with time zone,
    connected_at timestamp with time zone,
    published_tables integer,
    checkpoint_lsn pg_lsn,
    server_lsn pg_lsn,
    transactions_stored bigint NOT NULL,
    changes_stored bigint NOT NULL,
    last_commit_time timestamp with time zone,
    last_stored_at timestamp with time zone,
    incarnation_id bigint,
    source_id bigint NOT NULL,
    interface character varying(9) NOT NULL,
    outside_writes bigint NOT NULL,
    bytes_stored bigint NOT NULL,
    heartbeat_seconds integer,
    heartbeat_written_at timestamp with time zone,
    protect character varying(8) NOT NULL,
    receiver_facts jsonb NOT NULL,
    wal_budget_bytes bigint,
    keep_for_days integer,
    keep_at_most_bytes bigint
);
CREATE TABLE public.slot_event (
    id bigint NOT NULL,
    at timestamp with time zone NOT NULL,
    kind text NOT NULL,
    message text NOT NULL,
    detail jsonb NOT NULL,
    lsn pg_lsn,
    after_commit_seq bigint NOT NULL,
    slot_id bigint NOT NULL,
    incarnation_id bigint
);
ALTER TABLE public.slot_event ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.slot_event_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE public.slot ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.slot_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.slot_incarnation (
    id bigint NOT NULL,
    number integer NOT NULL,
    system_identifier text NOT NULL,
    timeline integer NOT NULL,
    started_lsn pg_lsn,
    started_at timestamp with time zone NOT NULL,
    reason text NOT NULL,
    commit_seq bigint NOT NULL,
    slot_id bigint NOT NULL
);
ALTER TABLE public.slot_incarnation ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.slot_incarnation_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.slot_intention (
    id bigint NOT NULL,
    source_name text NOT NULL,
    conninfo text NOT NULL,
    sealed_password text NOT NULL,
    password_ref text NOT NULL,
    slot_name text NOT NULL,
    after_lsn pg_lsn,
    begun jsonb NOT NULL,
    begun_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone,
    tried_at timestamp with time zone,
    swept_at timestamp with time zone,
    draft_id bigint,
    source_id bigint
);
ALTER TABLE public.slot_intention ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.slot_intention_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.slot_peek (
    id bigint NOT NULL,
    slot_name text NOT NULL,
    options jsonb NOT NULL,
    max_changes integer NOT NULL,
    max_seconds double precision NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    requested_by text NOT NULL,
    state character varying(10) NOT NULL,
    started_at timestamp with time zone,
    finished_at timestamp with time zone,
    result jsonb,
    problem_code text NOT NULL,
    problem_cause text NOT NULL,
    problem_remedy text NOT NULL,
    source_id bigint NOT NULL
);
ALTER TABLE public.slot_peek ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.slot_peek_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.slot_sample (
    slot_id bigint NOT NULL,
    sampled_at timestamp with time zone NOT NULL,
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
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    bytes_stored bigint,
    write_lag_seconds double precision,
    flush_lag_seconds double precision,
    replay_lag_seconds double precision,
    stored_after_p50_seconds double precision,
    stored_after_p99_seconds double precision,
    spill_txns bigint,
    spill_bytes bigint,
    stream_txns bigint,
    stream_bytes bigint,
    total_txns bigint,
    total_bytes bigint,
    batch_changes bigint,
    memory_bytes bigint
)
PARTITION BY RANGE (sampled_at);
CREATE TABLE public.slot_sample_hour (
    slot_id bigint NOT NULL,
    sampled_at timestamp with time zone NOT NULL,
    samples integer DEFAULT 1 NOT NULL,
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
    write_lag_seconds double precision,
    flush_lag_seconds double precision,
    replay_lag_seconds double precision,
    stored_after_p50_seconds double precision,
    stored_after_p99_seconds double precision,
    spill_txns bigint,
    spill_bytes bigint,
    stream_txns bigint,
    stream_bytes bigint,
    total_txns bigint,
    total_bytes bigint,
    batch_changes bigint,
    memory_bytes bigint
)
PARTITION BY RANGE (sampled_at);
CREATE TABLE public.slot_sample_minute (
    slot_id bigint NOT NULL,
    sampled_at timestamp with time zone NOT NULL,
    samples integer DEFAULT 1 NOT NULL,
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
    write_lag_seconds double precision,
    flush_lag_seconds double precision,
    replay_lag_seconds double precision,
    stored_after_p50_seconds double precision,
    stored_after_p99_seconds double precision,
    spill_txns bigint,
    spill_bytes bigint,
    stream_txns bigint,
    stream_bytes bigint,
    total_txns bigint,
    total_bytes bigint,
    batch_changes bigint,
    memory_bytes bigint
)
PARTITION BY RANGE (sampled_at);
CREATE TABLE public.source (
    id bigint NOT NULL,
    name character varying(63) NOT NULL,
    conninfo text NOT NULL,
    sealed_password text NOT NULL,
    ephemeral boolean NOT NULL,
    created_at timestamp with time zone NOT NULL,
    server_version integer,
    system_identifier text,
    timeline integer,
    encoding text,
    in_recovery boolean,
    max_slot_wal_keep_bytes bigint,
    checked_at timestamp with time zone,
    problem_code text NOT NULL,
    problem_cause text NOT NULL,
    problem_remedy text NOT NULL,
    password_ref text NOT NULL,
    credentials_at timestamp with time zone,
    credentials_by text NOT NULL,
    removing_at timestamp with time zone,
    managed_by text DEFAULT ''::text NOT NULL
);
CREATE TABLE public.source_draft (
    id bigint NOT NULL,
    kind character varying(7) NOT NULL,
    state character varying(9) NOT NULL,
    conninfo text NOT NULL,
    sealed_password text NOT NULL,
    password_ref text NOT NULL,
    answers jsonb NOT NULL,
    progress jsonb NOT NULL,
    undo jsonb NOT NULL,
    stop_wanted boolean NOT NULL,
    problem_code text NOT NULL,
    problem_cause text NOT NULL,
    problem_remedy text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    touched_at timestamp with time zone NOT NULL,
    asked_at timestamp with time zone,
    heartbeat_at timestamp with time zone,
    seen_at timestamp with time zone,
    slot_id bigint,
    source_id bigint,
    user_id integer NOT NULL
);
ALTER TABLE public.source_draft ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.source_draft_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE public.source ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.source_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.source_look (
    source_id bigint NOT NULL,
    looked_at timestamp with time zone NOT NULL,
    prepared jsonb,
    prepared_limit integer,
    running jsonb,
    holders jsonb
)
WITH (fillfactor='50');
CREATE TABLE public.source_sample (
    source_id bigint NOT NULL,
    sampled_at timestamp with time zone NOT NULL,
    reachable boolean NOT NULL,
    current_lsn pg_lsn,
    wal_directory_bytes bigint,
    prepared integer,
    oldest_prepared_seconds double precision,
    running integer,
    oldest_running_seconds double precision,
    took_seconds double precision,
    checkpointed_at timestamp with time zone
)
PARTITION BY RANGE (sampled_at);
CREATE TABLE public.store_moment (
    at timestamp with time zone NOT NULL,
    size_bytes bigint NOT NULL,
    free_bytes bigint
);
CREATE TABLE public.transaction (
    id bigint NOT NULL,
    commit_seq bigint,
    xid bigint,
    gid text,
    state text NOT NULL,
    streamed boolean NOT NULL,
    first_lsn pg_lsn,
    prepare_lsn pg_lsn,
    commit_lsn pg_lsn,
    end_lsn pg_lsn,
    commit_time timestamp with time zone,
    prepared_at timestamp with time zone,
    ended_at timestamp with time zone,
    origin text,
    actor text,
    actor_grade text,
    context jsonb,
    inserts bigint NOT NULL,
    updates bigint NOT NULL,
    deletes bigint NOT NULL,
    truncates bigint NOT NULL,
    messages bigint NOT NULL,
    size_bytes bigint NOT NULL,
    relations jsonb NOT NULL,
    aborted_changes bigint NOT NULL,
    received_at timestamp with time zone NOT NULL,
    stored_at timestamp with time zone,
    incarnation_id bigint NOT NULL
);
CREATE SEQUENCE public.transaction_id_block
    START WITH 1
    INCREMENT BY 20000
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
CREATE TABLE public.transaction_size_minute (
    incarnation_id bigint NOT NULL,
    minute timestamp with time zone NOT NULL,
    power smallint NOT NULL,
    transactions bigint NOT NULL,
    size_bytes bigint NOT NULL
);
CREATE TABLE public.transition (
    id bigint NOT NULL,
    transaction_id bigint NOT NULL,
    state text NOT NULL,
    lsn pg_lsn,
    source_time timestamp with time zone,
    recorded_at timestamp with time zone NOT NULL
);
ALTER TABLE public.transition ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.transition_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.type_name (
    id bigint NOT NULL,
    system_identifier text NOT NULL,
    oid bigint NOT NULL,
    schema text NOT NULL,
    name text NOT NULL,
    slot_id bigint NOT NULL
);
ALTER TABLE public.type_name ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.type_name_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.watched_slot (
    id bigint NOT NULL,
    name text NOT NULL,
    slot_type text NOT NULL,
    plugin text,
    database text,
    temporary boolean,
    first_seen_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    gone_at timestamp with time zone,
    inactive_since timestamp with time zone,
    facts jsonb NOT NULL,
    slot_id bigint,
    source_id bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE public.watched_subscription (
    id bigint NOT NULL,
    name text NOT NULL,
    first_seen_at timestamp with time zone NOT NULL,
    last_seen_at timestamp with time zone NOT NULL,
    gone_at timestamp with time zone,
    facts jsonb NOT NULL,
    source_id bigint NOT NULL
);
ALTER TABLE public.watched_subscription ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.watched_subscription_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE public.webhook (
    id bigint NOT NULL,
    name character varying(100) NOT NULL,
    sealed_url text NOT NULL,
    host text NOT NULL,
    format character varying(5) NOT NULL,
    sealed_secret text NOT NULL,
    enabled boolean NOT NULL,
    allow_private boolean NOT NULL,
    severities jsonb NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_by text NOT NULL
);
ALTER TABLE public.webhook ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME public.webhook_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
ALTER TABLE ONLY public.access_record ATTACH PARTITION public.access_record_202611 FOR VALUES FROM ('2026-11-01 00:00:00+00') TO ('2026-12-01 00:00:00+00');
ALTER TABLE ONLY public.access_record ATTACH PARTITION public.access_record_202612 FOR VALUES FROM ('2026-12-01 00:00:00+00') TO ('2027-01-01 00:00:00+00');
INSERT INTO public.auth_group (id, name) VALUES (1, 'viewer');
INSERT INTO public.auth_group (id, name) VALUES (2, 'operator');
INSERT INTO public.auth_group (id, name) VALUES (3, 'admin');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (1, 'contenttypes', '0001_initial', '2026-11-22 23:58:25.578475+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (2, 'contenttypes', '0002_remove_content_type_name', '2026-11-22 23:58:25.583843+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (3, 'auth', '0001_initial', '2026-11-22 23:58:25.628022+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (4, 'auth', '0002_alter_permission_name_max_length', '2026-11-22 23:58:25.664578+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (5, 'auth', '0003_alter_user_email_max_length', '2026-11-22 23:58:25.675844+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (6, 'auth', '0004_alter_user_username_opts', '2026-11-22 23:58:25.685375+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (7, 'auth', '0005_alter_user_last_login_null', '2026-11-22 23:58:25.700224+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (8, 'auth', '0006_require_contenttypes_0002', '2026-11-22 23:58:25.707244+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (9, 'auth', '0007_alter_validators_add_error_messages', '2026-11-22 23:58:25.713244+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (10, 'auth', '0008_alter_user_username_max_length', '2026-11-22 23:58:25.727664+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (11, 'auth', '0009_alter_user_last_name_max_length', '2026-11-22 23:58:25.733334+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (12, 'auth', '0010_alter_group_name_max_length', '2026-11-22 23:58:25.750713+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (13, 'auth', '0011_update_proxy_permissions', '2026-11-22 23:58:25.768295+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (14, 'auth', '0012_alter_user_first_name_max_length', '2026-11-22 23:58:25.782509+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (15, 'axes', '0001_initial', '2026-11-22 23:58:25.795311+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (16, 'axes', '0002_auto_20151217_2044', '2026-11-22 23:58:25.838941+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (17, 'axes', '0003_auto_20160322_0929', '2026-11-22 23:58:25.855339+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (18, 'axes', '0004_auto_20181024_1538', '2026-11-22 23:58:25.867188+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (19, 'axes', '0005_remove_accessattempt_trusted', '2026-11-22 23:58:25.874743+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (20, 'axes', '0006_remove_accesslog_trusted', '2026-11-22 23:58:25.878305+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (21, 'axes', '0007_alter_accessattempt_unique_together', '2026-11-22 23:58:25.902174+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (22, 'axes', '0008_accessfailurelog', '2026-11-22 23:58:25.919254+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (23, 'axes', '0009_add_session_hash', '2026-11-22 23:58:25.922962+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (24, 'axes', '0010_accessattemptexpiration', '2026-11-22 23:58:25.934374+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (25, 'sessions', '0001_initial', '2026-11-22 23:58:25.938039+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (26, 'store', '0001_initial', '2026-11-22 23:58:26.25215+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (27, 'store', '0002_partitioned', '2026-11-22 23:58:26.257005+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (28, 'store', '0003_states', '2026-11-22 23:58:26.45692+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (29, 'store', '0004_audit', '2026-11-22 23:58:27.062896+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (30, 'store', '0005_health', '2026-11-22 23:58:27.710854+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (31, 'store', '0006_checkpoints', '2026-11-22 23:58:27.754024+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (32, 'store', '0007_exports', '2026-11-22 23:58:27.824615+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (33, 'store', '0008_archive', '2026-11-22 23:58:27.945473+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (34, 'store', '0009_history_jobs', '2026-11-22 23:58:27.954626+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (35, 'store', '0010_rights', '2026-11-22 23:58:28.20831+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (36, 'store', '0011_masks', '2026-11-22 23:58:28.238715+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (37, 'store', '0012_access_record', '2026-11-22 23:58:28.270796+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (38, 'store', '0013_erasures', '2026-11-22 23:58:28.324374+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (39, 'store', '0014_keeping', '2026-11-22 23:58:28.849643+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (40, 'store', '0015_sources', '2026-11-22 23:58:29.081188+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (41, 'store', '0016_indexes_beside', '2026-11-22 23:58:29.197892+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (42, 'store', '0017_managed_by', '2026-11-22 23:58:29.216426+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (43, 'store', '0018_slot_intentions', '2026-11-22 23:58:29.314937+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (44, 'store', '0019_months_beside', '2026-11-22 23:58:29.319772+00');
INSERT INTO public.django_migrations (id, app, name, applied) VALUES (45, 'store', '0020_archive_homes', '2026-11-22 23:58:29.344419+00');
INSERT INTO public.rights_grant (id, tables, created_at, created_by, group_id, source_id, user_id) VALUES (1, '{}', '2026-11-22 23:58:28.184175+00', '', 1, NULL, NULL);
INSERT INTO public.rights_grant (id, tables, created_at, created_by, group_id, source_id, user_id) VALUES (2, '{}', '2026-11-22 23:58:28.191739+00', '', 2, NULL, NULL);
SELECT pg_catalog.setval('public.access_record_id_seq', 1, false);
SELECT pg_catalog.setval('public.alert_id_seq', 1, false);
SELECT pg_catalog.setval('public.alert_rule_id_seq', 1, false);
SELECT pg_catalog.setval('public.api_token_id_seq', 1, false);
SELECT pg_catalog.setval('public.archive_mark_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_group_id_seq', 3, true);
SELECT pg_catalog.setval('public.auth_group_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_permission_id_seq', 244, true);
SELECT pg_catalog.setval('public.auth_user_groups_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_user_id_seq', 1, false);
SELECT pg_catalog.setval('public.auth_user_user_permissions_id_seq', 1, false);
SELECT pg_catalog.setval('public.axes_accessattempt_id_seq', 1, false);
SELECT pg_catalog.setval('public.axes_accessfailurelog_id_seq', 1, false);
SELECT pg_catalog.setval('public.axes_accesslog_id_seq', 1, false);
SELECT pg_catalog.setval('public.baseline_id_seq', 1, false);
SELECT pg_catalog.setval('public.delivery_id_seq', 1, false);
SELECT pg_catalog.setval('public.django_content_type_id_seq', 61, true);
SELECT pg_catalog.setval('public.django_migrations_id_seq', 45, true);
SELECT pg_catalog.setval('public.erasure_id_seq', 1, false);
SELECT pg_catalog.setval('public.export_id_seq', 1, false);
SELECT pg_catalog.setval('public.history_job_id_seq', 1, false);
SELECT pg_catalog.setval('public.identity_id_seq', 1, false);
SELECT pg_catalog.setval('public.kept_day_id_seq', 1, false);
SELECT pg_catalog.setval('public.mask_rule_id_seq', 1, false);
SELECT pg_catalog.setval('public.publication_look_id_seq', 1, false);
SELECT pg_catalog.setval('public.quarantine_id_seq', 1, false);
SELECT pg_catalog.setval('public.relation_id_seq', 1, false);
SELECT pg_catalog.setval('public.relation_version_id_seq', 1, false);
SELECT pg_catalog.setval('public.rights_grant_id_seq', 2, true);
SELECT pg_catalog.setval('public.saved_filter_id_seq', 1, false);
SELECT pg_catalog.setval('public.setup_code_id_seq', 1, false);
SELECT pg_catalog.setval('public.slot_event_id_seq', 1, false);
SELECT pg_catalog.setval('public.slot_id_seq', 1, false);
SELECT pg_catalog.setval('public.slot_incarnation_id_seq', 1, false);
SELECT pg_catalog.setval('public.slot_intention_id_seq', 1, false);
SELECT pg_catalog.setval('public.slot_peek_id_seq', 1, false);
SELECT pg_catalog.setval('public.source_draft_id_seq', 1, false);
SELECT pg_catalog.setval('public.source_id_seq', 1, false);
SELECT pg_catalog.setval('public.transaction_id_block', 1, false);
SELECT pg_catalog.setval('public.transition_id_seq', 1, false);
SELECT pg_catalog.setval('public.type_name_id_seq', 1, false);
SELECT pg_catalog.setval('public.watched_subscription_id_seq', 1, false);
SELECT pg_catalog.setval('public.webhook_id_seq', 1, false);
ALTER TABLE ONLY public.aborted_subtransaction
    ADD CONSTRAINT aborted_subtransaction_pkey PRIMARY KEY (transaction_id, subxid);
ALTER TABLE ONLY public.access_record
    ADD CONSTRAINT access_record_pkey PRIMARY KEY (at, id);
ALTER TABLE ONLY public.access_record_202611
    ADD CONSTRAINT access_record_202611_pkey PRIMARY KEY (at, id);
ALTER TABLE ONLY public.access_record_202612
    ADD CONSTRAINT access_record_202612_pkey PRIMARY KEY (at, id);
ALTER TABLE ONLY public.activity_mark
    ADD CONSTRAINT activity_mark_pkey PRIMARY KEY (incarnation_id);
ALTER TABLE ONLY public.actor_activity
    ADD CONSTRAINT actor_activity_pkey PRIMARY KEY (incarnation_id, actor, day, relation_id, grade);
ALTER TABLE ONLY public.alert
    ADD CONSTRAINT alert_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.alert_rule
    ADD CONSTRAINT alert_rule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_by_name UNIQUE (user_id, name);
ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.archive_mark
    ADD CONSTRAINT archive_mark_by_target UNIQUE (incarnation_id, target);
ALTER TABLE ONLY public.archive_mark
    ADD CONSTRAINT archive_mark_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.archived_run
    ADD CONSTRAINT archived_run_pkey PRIMARY KEY (first_id);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_name_key UNIQUE (name);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_permission_id_0cd325b0_uniq UNIQUE (group_id, permission_id);
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_group
    ADD CONSTRAINT auth_group_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_codename_01ab375a_uniq UNIQUE (content_type_id, codename);
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_group_id_94350c0c_uniq UNIQUE (user_id, group_id);
ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_permission_id_14a6b632_uniq UNIQUE (user_id, permission_id);
ALTER TABLE ONLY public.auth_user
    ADD CONSTRAINT auth_user_username_key UNIQUE (username);
ALTER TABLE ONLY public.axes_accessattempt
    ADD CONSTRAINT axes_accessattempt_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.axes_accessattempt
    ADD CONSTRAINT axes_accessattempt_username_ip_address_user_agent_8ea22282_uniq UNIQUE (username, ip_address, user_agent);
ALTER TABLE ONLY public.axes_accessattemptexpiration
    ADD CONSTRAINT axes_accessattemptexpiration_pkey PRIMARY KEY (access_attempt_id);
ALTER TABLE ONLY public.axes_accessfailurelog
    ADD CONSTRAINT axes_accessfailurelog_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.axes_accesslog
    ADD CONSTRAINT axes_accesslog_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.baseline
    ADD CONSTRAINT baseline_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.change
    ADD CONSTRAINT change_pkey PRIMARY KEY (transaction_id, seq);
ALTER TABLE ONLY public.delivery
    ADD CONSTRAINT delivery_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_app_label_model_76bd3d3b_uniq UNIQUE (app_label, model);
ALTER TABLE ONLY public.django_content_type
    ADD CONSTRAINT django_content_type_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_migrations
    ADD CONSTRAINT django_migrations_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.django_session
    ADD CONSTRAINT django_session_pkey PRIMARY KEY (session_key);
ALTER TABLE ONLY public.erasure
    ADD CONSTRAINT erasure_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.export
    ADD CONSTRAINT export_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.history_block
    ADD CONSTRAINT history_block_pkey PRIMARY KEY (incarnation_id, block);
ALTER TABLE ONLY public.history_job
    ADD CONSTRAINT history_job_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.identity
    ADD CONSTRAINT identity_by_subject UNIQUE (issuer, subject);
ALTER TABLE ONLY public.identity
    ADD CONSTRAINT identity_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.slot_incarnation
    ADD CONSTRAINT incarnation_by_number UNIQUE (slot_id, number);
ALTER TABLE ONLY public.kept_day
    ADD CONSTRAINT kept_day_once UNIQUE (incarnation_id, day);
ALTER TABLE ONLY public.kept_day
    ADD CONSTRAINT kept_day_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.large_value
    ADD CONSTRAINT large_value_pkey PRIMARY KEY (transaction_id, seq, side, "column", piece);
ALTER TABLE ONLY public.mask_rule
    ADD CONSTRAINT mask_rule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.minute_mark
    ADD CONSTRAINT minute_mark_pkey PRIMARY KEY (incarnation_id);
ALTER TABLE ONLY public.publication_look
    ADD CONSTRAINT publication_look_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.quarantine
    ADD CONSTRAINT quarantine_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.relation_activity
    ADD CONSTRAINT relation_activity_pkey PRIMARY KEY (relation_id, incarnation_id, block, version_id);
ALTER TABLE ONLY public.relation
    ADD CONSTRAINT relation_by_oid UNIQUE (slot_id, system_identifier, oid);
ALTER TABLE ONLY public.relation_minute
    ADD CONSTRAINT relation_minute_pkey PRIMARY KEY (incarnation_id, relation_id, minute);
ALTER TABLE ONLY public.relation
    ADD CONSTRAINT relation_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.relation_version
    ADD CONSTRAINT relation_version_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.rights_grant
    ADD CONSTRAINT rights_grant_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.sample_mark
    ADD CONSTRAINT sample_mark_pkey PRIMARY KEY (period);
ALTER TABLE ONLY public.saved_filter
    ADD CONSTRAINT saved_filter_by_name UNIQUE (user_id, page, name);
ALTER TABLE ONLY public.saved_filter
    ADD CONSTRAINT saved_filter_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.setting
    ADD CONSTRAINT setting_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.setup_code
    ADD CONSTRAINT setup_code_digest_key UNIQUE (digest);
ALTER TABLE ONLY public.setup_code
    ADD CONSTRAINT setup_code_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.slot
    ADD CONSTRAINT slot_by_name UNIQUE (source_id, name);
ALTER TABLE ONLY public.slot_event
    ADD CONSTRAINT slot_event_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.slot_incarnation
    ADD CONSTRAINT slot_incarnation_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.slot_intention
    ADD CONSTRAINT slot_intention_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.slot_peek
    ADD CONSTRAINT slot_peek_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.slot
    ADD CONSTRAINT slot_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.slot_sample_hour
    ADD CONSTRAINT slot_sample_hour_pkey PRIMARY KEY (slot_id, sampled_at);
ALTER TABLE ONLY public.slot_sample_minute
    ADD CONSTRAINT slot_sample_minute_pkey PRIMARY KEY (slot_id, sampled_at);
ALTER TABLE ONLY public.slot_sample
    ADD CONSTRAINT slot_sample_pkey PRIMARY KEY (slot_id, sampled_at);
ALTER TABLE ONLY public.source_draft
    ADD CONSTRAINT source_draft_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.source_look
    ADD CONSTRAINT source_look_pkey PRIMARY KEY (source_id);
ALTER TABLE ONLY public.source
    ADD CONSTRAINT source_name_key UNIQUE (name);
ALTER TABLE ONLY public.source
    ADD CONSTRAINT source_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.source_sample
    ADD CONSTRAINT source_sample_pkey PRIMARY KEY (source_id, sampled_at);
ALTER TABLE ONLY public.store_moment
    ADD CONSTRAINT store_moment_pkey PRIMARY KEY (at);
ALTER TABLE ONLY public.transaction
    ADD CONSTRAINT transaction_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.transaction_size_minute
    ADD CONSTRAINT transaction_size_minute_pkey PRIMARY KEY (incarnation_id, minute, power);
ALTER TABLE ONLY public.transition
    ADD CONSTRAINT transition_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.type_name
    ADD CONSTRAINT type_by_oid UNIQUE (slot_id, system_identifier, oid);
ALTER TABLE ONLY public.type_name
    ADD CONSTRAINT type_name_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.relation_version
    ADD CONSTRAINT version_by_digest UNIQUE (relation_id, digest);
ALTER TABLE ONLY public.relation_version
    ADD CONSTRAINT version_by_number UNIQUE (relation_id, number);
ALTER TABLE ONLY public.watched_slot
    ADD CONSTRAINT watched_slot_by_name UNIQUE (source_id, name);
ALTER TABLE ONLY public.watched_slot
    ADD CONSTRAINT watched_slot_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.watched_slot
    ADD CONSTRAINT watched_slot_slot_id_key UNIQUE (slot_id);
ALTER TABLE ONLY public.watched_subscription
    ADD CONSTRAINT watched_subscription_by_name UNIQUE (source_id, name);
ALTER TABLE ONLY public.watched_subscription
    ADD CONSTRAINT watched_subscription_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.webhook
    ADD CONSTRAINT webhook_name_key UNIQUE (name);
ALTER TABLE ONLY public.webhook
    ADD CONSTRAINT webhook_pkey PRIMARY KEY (id);
CREATE INDEX access_record_by_action ON ONLY public.access_record USING btree (action, at, id);
CREATE INDEX access_record_202611_action_at_id_idx ON public.access_record_202611 USING btree (action, at, id);
CREATE INDEX access_record_by_source ON ONLY public.access_record USING btree (source_name, at, id);
CREATE INDEX access_record_202611_source_name_at_id_idx ON public.access_record_202611 USING btree (source_name, at, id);
CREATE INDEX access_record_by_table ON ONLY public.access_record USING gin (tables);
CREATE INDEX access_record_202611_tables_idx ON public.access_record_202611 USING gin (tables);
CREATE INDEX access_record_by_user ON ONLY public.access_record USING btree (user_name, at, id);
CREATE INDEX access_record_202611_user_name_at_id_idx ON public.access_record_202611 USING btree (user_name, at, id);
CREATE INDEX access_record_202612_action_at_id_idx ON public.access_record_202612 USING btree (action, at, id);
CREATE INDEX access_record_202612_source_name_at_id_idx ON public.access_record_202612 USING btree (source_name, at, id);
CREATE INDEX access_record_202612_tables_idx ON public.access_record_202612 USING gin (tables);
CREATE INDEX access_record_202612_user_name_at_id_idx ON public.access_record_202612 USING btree (user_name, at, id);
CREATE INDEX activity_of_block ON public.relation_activity USING btree (incarnation_id, block);
CREATE INDEX actor_activity_by_day ON public.actor_activity USING btree (incarnation_id, day);
CREATE INDEX actor_activity_by_table ON public.actor_activity USING btree (relation_id, day);
CREATE INDEX alert_by_end ON public.alert USING btree (cleared_at DESC);
CREATE INDEX alert_by_time ON public.alert USING btree (fired_at DESC);
CREATE UNIQUE INDEX alert_once_open ON public.alert USING btree (rule_id, subject) WHERE ((state)::text = ANY ((ARRAY['pending'::character varying, 'firing'::character varying])::text[]));
CREATE INDEX alert_open ON public.alert USING btree (state) WHERE ((state)::text = ANY ((ARRAY['pending'::character varying, 'firing'::character varying])::text[]));
CREATE INDEX alert_rule_id_a026cc16 ON public.alert USING btree (rule_id);
CREATE INDEX alert_rule_overrides_id_f3a4406f ON public.alert_rule USING btree (overrides_id);
CREATE INDEX alert_rule_slot_id_287859eb ON public.alert_rule USING btree (slot_id);
CREATE INDEX alert_slot_id_48f11353 ON public.alert USING btree (slot_id);
CREATE INDEX alert_source_id_becec962 ON public.alert USING btree (source_id);
CREATE INDEX api_token_digest_0ef4c99d_like ON public.api_token USING btree (digest varchar_pattern_ops);
CREATE INDEX api_token_user_id_b646d2e7 ON public.api_token USING btree (user_id);
CREATE INDEX archive_mark_incarnation_id_9b635e41 ON public.archive_mark USING btree (incarnation_id);
CREATE INDEX archived_run_incarnation_id_4080b741 ON public.archived_run USING btree (incarnation_id);
CREATE INDEX auth_group_name_a6ea08ec_like ON public.auth_group USING btree (name varchar_pattern_ops);
CREATE INDEX auth_group_permissions_group_id_b120cbf9 ON public.auth_group_permissions USING btree (group_id);
CREATE INDEX auth_group_permissions_permission_id_84c5c92e ON public.auth_group_permissions USING btree (permission_id);
CREATE INDEX auth_permission_content_type_id_2f476e4b ON public.auth_permission USING btree (content_type_id);
CREATE INDEX auth_user_groups_group_id_97559544 ON public.auth_user_groups USING btree (group_id);
CREATE INDEX auth_user_groups_user_id_6a12ed8b ON public.auth_user_groups USING btree (user_id);
CREATE INDEX auth_user_user_permissions_permission_id_1fbb5f2c ON public.auth_user_user_permissions USING btree (permission_id);
CREATE INDEX auth_user_user_permissions_user_id_a95ead1b ON public.auth_user_user_permissions USING btree (user_id);
CREATE INDEX auth_user_username_6821ab7c_like ON public.auth_user USING btree (username varchar_pattern_ops);
CREATE INDEX axes_accessattempt_ip_address_10922d9c ON public.axes_accessattempt USING btree (ip_address);
CREATE INDEX axes_accessattempt_user_agent_ad89678b ON public.axes_accessattempt USING btree (user_agent);
CREATE INDEX axes_accessattempt_user_agent_ad89678b_like ON public.axes_accessattempt USING btree (user_agent varchar_pattern_ops);
CREATE INDEX axes_accessattempt_username_3f2d4ca0 ON public.axes_accessattempt USING btree (username);
CREATE INDEX axes_accessattempt_username_3f2d4ca0_like ON public.axes_accessattempt USING btree (username varchar_pattern_ops);
CREATE INDEX axes_accessfailurelog_ip_address_2e9f5a7f ON public.axes_accessfailurelog USING btree (ip_address);
CREATE INDEX axes_accessfailurelog_user_agent_ea145dda ON public.axes_accessfailurelog USING btree (user_agent);
CREATE INDEX axes_accessfailurelog_user_agent_ea145dda_like ON public.axes_accessfailurelog USING btree (user_agent varchar_pattern_ops);
CREATE INDEX axes_accessfailurelog_username_a8b7e8a4 ON public.axes_accessfailurelog USING btree (username);
CREATE INDEX axes_accessfailurelog_username_a8b7e8a4_like ON public.axes_accessfailurelog USING btree (username varchar_pattern_ops);
CREATE INDEX axes_accesslog_ip_address_86b417e5 ON public.axes_accesslog USING btree (ip_address);
CREATE INDEX axes_accesslog_user_agent_0e659004 ON public.axes_accesslog USING btree (user_agent);
CREATE INDEX axes_accesslog_user_agent_0e659004_like ON public.axes_accesslog USING btree (user_agent varchar_pattern_ops);
CREATE INDEX axes_accesslog_username_df93064b ON public.axes_accesslog USING btree (username);
CREATE INDEX axes_accesslog_username_df93064b_like ON public.axes_accesslog USING btree (username varchar_pattern_ops);
CREATE INDEX baseline_by_table ON public.baseline USING btree (slot_id, schema, "table", id DESC);
CREATE INDEX baseline_incarnation_id_7f5a19e1 ON public.baseline USING btree (incarnation_id);
CREATE INDEX baseline_slot_id_d6975924 ON public.baseline USING btree (slot_id);
CREATE INDEX baseline_waiting ON public.baseline USING btree (id) WHERE ((state)::text = ANY ((ARRAY['requested'::character varying, 'reading'::character varying])::text[]));
CREATE INDEX change_moved_key ON ONLY public.change USING btree (relation_id, old_key_hash) WHERE (old_key_hash IS NOT NULL);
CREATE INDEX change_row_history ON ONLY public.change USING btree (relation_id, key_hash, lsn, seq);
CREATE INDEX delivery_alert_id_b9c2b184 ON public.delivery USING btree (alert_id);
CREATE INDEX delivery_waiting ON public.delivery USING btree (next_try_at) WHERE ((delivered_at IS NULL) AND (given_up_at IS NULL));
CREATE INDEX delivery_webhook_id_5883c2fd ON public.delivery USING btree (webhook_id);
CREATE INDEX django_session_expire_date_a5c62663 ON public.django_session USING btree (expire_date);
CREATE INDEX django_session_session_key_c0390e0f_like ON public.django_session USING btree (session_key varchar_pattern_ops);
CREATE INDEX erasure_slot_id_a73dc4f3 ON public.erasure USING btree (slot_id);
CREATE INDEX erasure_waiting ON public.erasure USING btree (id) WHERE ((state)::text = ANY ((ARRAY['looking'::character varying, 'waiting'::character varying, 'running'::character varying, 'unfinished'::character varying])::text[]));
CREATE INDEX export_by_name ON public.export USING btree (name, id DESC);
CREATE INDEX export_slot_id_0279fc3c ON public.export USING btree (slot_id);
CREATE INDEX export_waiting ON public.export USING btree (id) WHERE ((state)::text = ANY ((ARRAY['waiting'::character varying, 'running'::character varying])::text[]));
CREATE INDEX history_job_waiting ON public.history_job USING btree (id) WHERE ((state)::text = ANY ((ARRAY['waiting'::character varying, 'running'::character varying])::text[]));
CREATE INDEX identity_user_id_3e67743b ON public.identity USING btree (user_id);
CREATE INDEX kept_day_by_day ON public.kept_day USING btree (day);
CREATE INDEX kept_day_incarnation_id_47c7750e ON public.kept_day USING btree (incarnation_id);
CREATE INDEX mask_rule_source_id_9a1bf325 ON public.mask_rule USING btree (source_id);
CREATE INDEX publication_look_latest ON public.publication_look USING btree (slot_id, last_seen_at DESC);
CREATE INDEX publication_look_slot_id_fd7f90a1 ON public.publication_look USING btree (slot_id);
CREATE INDEX quarantine_incarnation_id_d6f32e92 ON public.quarantine USING btree (incarnation_id);
CREATE INDEX quarantine_slot_id_ae05c907 ON public.quarantine USING btree (slot_id);
CREATE INDEX quarantine_unsettled ON public.quarantine USING btree (slot_id) WHERE (settled_at IS NULL);
CREATE INDEX relation_current_version_id_6a5539e9 ON public.relation USING btree (current_version_id);
CREATE INDEX relation_minute_by_time ON public.relation_minute USING btree (incarnation_id, minute);
CREATE INDEX relation_slot_id_3429003d ON public.relation USING btree (slot_id);
CREATE INDEX relation_version_relation_id_db294d6c ON public.relation_version USING btree (relation_id);
CREATE INDEX rights_grant_group_id_0a0562eb ON public.rights_grant USING btree (group_id);
CREATE INDEX rights_grant_source_id_8cc8e657 ON public.rights_grant USING btree (source_id);
CREATE INDEX rights_grant_user_id_32a4cc34 ON public.rights_grant USING btree (user_id);
CREATE INDEX sample_mark_period_02980a2d_like ON public.sample_mark USING btree (period text_pattern_ops);
CREATE INDEX saved_filter_user_id_70eacac8 ON public.saved_filter USING btree (user_id);
CREATE INDEX setting_name_0d217d8f_like ON public.setting USING btree (name varchar_pattern_ops);
CREATE INDEX setup_code_digest_e103af8d_like ON public.setup_code USING btree (digest varchar_pattern_ops);
CREATE INDEX slot_event_by_time ON public.slot_event USING btree (slot_id, at);
CREATE INDEX slot_event_incarnation_id_6785202c ON public.slot_event USING btree (incarnation_id);
CREATE INDEX slot_event_slot_id_792c7cf6 ON public.slot_event USING btree (slot_id);
CREATE INDEX slot_incarnation_id_33eefeca ON public.slot USING btree (incarnation_id);
CREATE INDEX slot_incarnation_slot_id_34e3697f ON public.slot_incarnation USING btree (slot_id);
CREATE INDEX slot_intention_draft_id_5e9d37dc ON public.slot_intention USING btree (draft_id);
CREATE INDEX slot_intention_source_id_c5bc3114 ON public.slot_intention USING btree (source_id);
CREATE INDEX slot_peek_by_slot ON public.slot_peek USING btree (source_id, slot_name, id DESC);
CREATE INDEX slot_peek_source_id_801203f8 ON public.slot_peek USING btree (source_id);
CREATE INDEX slot_peek_waiting ON public.slot_peek USING btree (id) WHERE ((state)::text = ANY ((ARRAY['requested'::character varying, 'running'::character varying])::text[]));
CREATE INDEX slot_source_id_16455d99 ON public.slot USING btree (source_id);
CREATE INDEX source_draft_slot_id_1e9a01cc ON public.source_draft USING btree (slot_id);
CREATE INDEX source_draft_source_id_be153f2c ON public.source_draft USING btree (source_id);
CREATE INDEX source_draft_user_id_635fd343 ON public.source_draft USING btree (user_id);
CREATE INDEX source_draft_waiting ON public.source_draft USING btree (id) WHERE ((state)::text = ANY ((ARRAY['asked'::character varying, 'working'::character varying])::text[]));
CREATE INDEX source_name_3e06ccc1_like ON public.source USING btree (name varchar_pattern_ops);
CREATE INDEX tombstone_unswept ON public.aborted_subtransaction USING btree (transaction_id) WHERE (NOT swept);
CREATE INDEX transaction_by_actor ON public.transaction USING btree (incarnation_id, actor, commit_seq) WHERE ((actor IS NOT NULL) AND (commit_seq IS NOT NULL));
CREATE INDEX transaction_by_origin ON public.transaction USING btree (incarnation_id, origin, commit_seq) WHERE ((commit_seq IS NOT NULL) AND (origin IS NOT NULL));
CREATE INDEX transaction_ended ON public.transaction USING btree (incarnation_id, stored_at) WHERE (state = ANY (ARRAY['aborted'::text, 'rolled back'::text, 'unknown'::text]));
CREATE INDEX transaction_gid ON public.transaction USING btree (gid) WHERE (gid IS NOT NULL);
CREATE UNIQUE INDEX transaction_in_order ON public.transaction USING btree (incarnation_id, commit_seq) WHERE (commit_seq IS NOT NULL);
CREATE INDEX transaction_open ON public.transaction USING btree (incarnation_id, state) WHERE (state = ANY (ARRAY['receiving'::text, 'streaming'::text, 'prepared'::text, 'discarded'::text]));
CREATE INDEX transaction_two_phase ON public.transaction USING btree (incarnation_id, commit_seq) WHERE ((commit_seq IS NOT NULL) AND (gid IS NOT NULL));
CREATE INDEX transaction_was_open ON public.transaction USING btree (stored_at) WHERE ((streamed OR (gid IS NOT NULL)) AND (state = ANY (ARRAY['committed'::text, 'aborted'::text, 'rolled back'::text, 'skipped'::text, 'unknown'::text])));
CREATE INDEX transaction_xid ON public.transaction USING btree (xid);
CREATE INDEX transition_by_transaction ON public.transition USING btree (transaction_id);
CREATE INDEX type_name_slot_id_804a15e1 ON public.type_name USING btree (slot_id);
CREATE INDEX watched_slot_source_id_df7dc06f ON public.watched_slot USING btree (source_id);
CREATE INDEX watched_subscription_source_id_ebf9891e ON public.watched_subscription USING btree (source_id);
CREATE INDEX webhook_name_df2a229a_like ON public.webhook USING btree (name varchar_pattern_ops);
ALTER INDEX public.access_record_by_action ATTACH PARTITION public.access_record_202611_action_at_id_idx;
ALTER INDEX public.access_record_pkey ATTACH PARTITION public.access_record_202611_pkey;
ALTER INDEX public.access_record_by_source ATTACH PARTITION public.access_record_202611_source_name_at_id_idx;
ALTER INDEX public.access_record_by_table ATTACH PARTITION public.access_record_202611_tables_idx;
ALTER INDEX public.access_record_by_user ATTACH PARTITION public.access_record_202611_user_name_at_id_idx;
ALTER INDEX public.access_record_by_action ATTACH PARTITION public.access_record_202612_action_at_id_idx;
ALTER INDEX public.access_record_pkey ATTACH PARTITION public.access_record_202612_pkey;
ALTER INDEX public.access_record_by_source ATTACH PARTITION public.access_record_202612_source_name_at_id_idx;
ALTER INDEX public.access_record_by_table ATTACH PARTITION public.access_record_202612_tables_idx;
ALTER INDEX public.access_record_by_user ATTACH PARTITION public.access_record_202612_user_name_at_id_idx;
CREATE TRIGGER access_record_append_only BEFORE DELETE OR UPDATE ON public.access_record FOR EACH ROW EXECUTE FUNCTION public.access_record_refuse();
CREATE TRIGGER access_record_no_truncate BEFORE TRUNCATE ON public.access_record FOR EACH STATEMENT EXECUTE FUNCTION public.access_record_refuse();
CREATE TRIGGER access_record_no_truncate BEFORE TRUNCATE ON public.access_record_202611 FOR EACH STATEMENT EXECUTE FUNCTION public.access_record_refuse();
CREATE TRIGGER access_record_no_truncate BEFORE TRUNCATE ON public.access_record_202612 FOR EACH STATEMENT EXECUTE FUNCTION public.access_record_refuse();
ALTER TABLE ONLY public.alert
    ADD CONSTRAINT alert_rule_id_a026cc16_fk_alert_rule_id FOREIGN KEY (rule_id) REFERENCES public.alert_rule(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.alert_rule
    ADD CONSTRAINT alert_rule_overrides_id_f3a4406f_fk_alert_rule_id FOREIGN KEY (overrides_id) REFERENCES public.alert_rule(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.alert_rule
    ADD CONSTRAINT alert_rule_slot_id_287859eb_fk_watched_slot_id FOREIGN KEY (slot_id) REFERENCES public.watched_slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.alert
    ADD CONSTRAINT alert_slot_id_48f11353_fk_watched_slot_id FOREIGN KEY (slot_id) REFERENCES public.watched_slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.alert
    ADD CONSTRAINT alert_source_id_becec962_fk_source_id FOREIGN KEY (source_id) REFERENCES public.source(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.api_token
    ADD CONSTRAINT api_token_user_id_b646d2e7_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.archive_mark
    ADD CONSTRAINT archive_mark_incarnation_id_9b635e41_fk_slot_incarnation_id FOREIGN KEY (incarnation_id) REFERENCES public.slot_incarnation(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.archived_run
    ADD CONSTRAINT archived_run_incarnation_id_4080b741_fk_slot_incarnation_id FOREIGN KEY (incarnation_id) REFERENCES public.slot_incarnation(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissio_permission_id_84c5c92e_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_group_permissions
    ADD CONSTRAINT auth_group_permissions_group_id_b120cbf9_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_permission
    ADD CONSTRAINT auth_permission_content_type_id_2f476e4b_fk_django_co FOREIGN KEY (content_type_id) REFERENCES public.django_content_type(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_group_id_97559544_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_groups
    ADD CONSTRAINT auth_user_groups_user_id_6a12ed8b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permi_permission_id_1fbb5f2c_fk_auth_perm FOREIGN KEY (permission_id) REFERENCES public.auth_permission(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.auth_user_user_permissions
    ADD CONSTRAINT auth_user_user_permissions_user_id_a95ead1b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.axes_accessattemptexpiration
    ADD CONSTRAINT axes_accessattemptex_access_attempt_id_6b73a47a_fk_axes_acce FOREIGN KEY (access_attempt_id) REFERENCES public.axes_accessattempt(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.baseline
    ADD CONSTRAINT baseline_incarnation_id_7f5a19e1_fk_slot_incarnation_id FOREIGN KEY (incarnation_id) REFERENCES public.slot_incarnation(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.baseline
    ADD CONSTRAINT baseline_slot_id_d6975924_fk_slot_id FOREIGN KEY (slot_id) REFERENCES public.slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.delivery
    ADD CONSTRAINT delivery_alert_id_b9c2b184_fk_alert_id FOREIGN KEY (alert_id) REFERENCES public.alert(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.delivery
    ADD CONSTRAINT delivery_webhook_id_5883c2fd_fk_webhook_id FOREIGN KEY (webhook_id) REFERENCES public.webhook(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.erasure
    ADD CONSTRAINT erasure_slot_id_a73dc4f3_fk_slot_id FOREIGN KEY (slot_id) REFERENCES public.slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.export
    ADD CONSTRAINT export_slot_id_0279fc3c_fk_slot_id FOREIGN KEY (slot_id) REFERENCES public.slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.identity
    ADD CONSTRAINT identity_user_id_3e67743b_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.kept_day
    ADD CONSTRAINT kept_day_incarnation_id_47c7750e_fk_slot_incarnation_id FOREIGN KEY (incarnation_id) REFERENCES public.slot_incarnation(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.mask_rule
    ADD CONSTRAINT mask_rule_source_id_9a1bf325_fk_source_id FOREIGN KEY (source_id) REFERENCES public.source(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.publication_look
    ADD CONSTRAINT publication_look_slot_id_fd7f90a1_fk_slot_id FOREIGN KEY (slot_id) REFERENCES public.slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quarantine
    ADD CONSTRAINT quarantine_incarnation_id_d6f32e92_fk_slot_incarnation_id FOREIGN KEY (incarnation_id) REFERENCES public.slot_incarnation(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.quarantine
    ADD CONSTRAINT quarantine_slot_id_ae05c907_fk_slot_id FOREIGN KEY (slot_id) REFERENCES public.slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.relation
    ADD CONSTRAINT relation_current_version_id_6a5539e9_fk_relation_version_id FOREIGN KEY (current_version_id) REFERENCES public.relation_version(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.relation
    ADD CONSTRAINT relation_slot_id_3429003d_fk_slot_id FOREIGN KEY (slot_id) REFERENCES public.slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.relation_version
    ADD CONSTRAINT relation_version_relation_id_db294d6c_fk_relation_id FOREIGN KEY (relation_id) REFERENCES public.relation(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.rights_grant
    ADD CONSTRAINT rights_grant_group_id_0a0562eb_fk_auth_group_id FOREIGN KEY (group_id) REFERENCES public.auth_group(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.rights_grant
    ADD CONSTRAINT rights_grant_source_id_8cc8e657_fk_source_id FOREIGN KEY (source_id) REFERENCES public.source(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.rights_grant
    ADD CONSTRAINT rights_grant_user_id_32a4cc34_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.saved_filter
    ADD CONSTRAINT saved_filter_user_id_70eacac8_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.slot_event
    ADD CONSTRAINT slot_event_incarnation_id_6785202c_fk_slot_incarnation_id FOREIGN KEY (incarnation_id) REFERENCES public.slot_incarnation(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.slot_event
    ADD CONSTRAINT slot_event_slot_id_792c7cf6_fk_slot_id FOREIGN KEY (slot_id) REFERENCES public.slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.slot
    ADD CONSTRAINT slot_incarnation_id_33eefeca_fk_slot_incarnation_id FOREIGN KEY (incarnation_id) REFERENCES public.slot_incarnation(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.slot_incarnation
    ADD CONSTRAINT slot_incarnation_slot_id_34e3697f_fk_slot_id FOREIGN KEY (slot_id) REFERENCES public.slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.slot_intention
    ADD CONSTRAINT slot_intention_draft_id_5e9d37dc_fk_source_draft_id FOREIGN KEY (draft_id) REFERENCES public.source_draft(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.slot_intention
    ADD CONSTRAINT slot_intention_source_id_c5bc3114_fk_source_id FOREIGN KEY (source_id) REFERENCES public.source(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.slot_peek
    ADD CONSTRAINT slot_peek_source_id_801203f8_fk_source_id FOREIGN KEY (source_id) REFERENCES public.source(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.slot
    ADD CONSTRAINT slot_source_id_16455d99_fk_source_id FOREIGN KEY (source_id) REFERENCES public.source(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.source_draft
    ADD CONSTRAINT source_draft_slot_id_1e9a01cc_fk_slot_id FOREIGN KEY (slot_id) REFERENCES public.slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.source_draft
    ADD CONSTRAINT source_draft_source_id_be153f2c_fk_source_id FOREIGN KEY (source_id) REFERENCES public.source(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.source_draft
    ADD CONSTRAINT source_draft_user_id_635fd343_fk_auth_user_id FOREIGN KEY (user_id) REFERENCES public.auth_user(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.source_look
    ADD CONSTRAINT source_look_source_id_84769672_fk_source_id FOREIGN KEY (source_id) REFERENCES public.source(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.type_name
    ADD CONSTRAINT type_name_slot_id_804a15e1_fk_slot_id FOREIGN KEY (slot_id) REFERENCES public.slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.watched_slot
    ADD CONSTRAINT watched_slot_slot_id_63650199_fk_slot_id FOREIGN KEY (slot_id) REFERENCES public.slot(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.watched_slot
    ADD CONSTRAINT watched_slot_source_id_df7dc06f_fk_source_id FOREIGN KEY (source_id) REFERENCES public.source(id) DEFERRABLE INITIALLY DEFERRED;
ALTER TABLE ONLY public.watched_subscription
    ADD CONSTRAINT watched_subscription_source_id_ebf9891e_fk_source_id FOREIGN KEY (source_id) REFERENCES public.source(id) DEFERRABLE INITIALLY DEFERRED;
