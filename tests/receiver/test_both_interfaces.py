"""Through the SQL interface, the same tests as through a walsender: nothing may differ."""
# ruff: noqa: F401 - what is imported is collected as this module's tests

from functools import partial

import pytest

from tests.receiver.test_fencing import (
    test_a_receiver_that_was_taken_over_stops_and_writes_nothing,
    test_a_second_receiver_finds_the_slot_taken,
    test_stopping_the_slot_ends_its_receiver,
)
from tests.receiver.test_hostile_sources import (
    test_a_database_without_an_encoding_is_stored_whole,
    test_a_store_that_refuses_is_named_and_not_asked_again_at_once,
    test_a_value_not_sent_with_an_insert_is_absent,
    test_bytes_that_are_no_text_in_the_sources_encoding_are_kept_marked,
    test_no_context_is_too_deep_or_too_long,
    test_odd_shapes_and_names_are_stored_as_they_are,
    test_very_many_subtransactions_are_stored_in_bounded_time,
)
from tests.receiver.test_interruptions import (
    test_a_source_that_restarts_sends_nothing_twice_into_the_record,
    test_a_store_that_drops_the_connection_gets_everything_once,
    test_what_a_crash_left_half_received_is_hidden_and_received_anew,
)
from tests.receiver.test_problems import (
    test_a_missing_publication_is_named_on_16,
    test_a_role_without_replication_is_named,
    test_a_server_restored_from_an_older_copy_begins_a_new_record,
    test_a_slot_in_use_is_named_and_taken_when_it_is_free,
    test_a_slot_that_is_gone_is_named,
    test_a_value_that_ends_the_stream_is_in_no_message,
    test_a_wrong_password_is_named_without_being_repeated,
    test_an_unreachable_host_is_named,
    test_wal_level_and_a_lost_slot_are_named,
    test_what_ended_a_stream_is_named_though_data_came_just_before,
)
from tests.receiver.test_recording import (
    test_a_commit_is_stored_with_its_changes_in_order,
    test_a_message_names_the_actor,
    test_a_prepared_transaction_waits_and_ends,
    test_a_second_receiver_resumes_where_the_first_ended,
    test_a_streamed_transaction_is_seen_before_it_ends,
    test_a_streamed_transaction_that_aborts_says_so,
    test_an_idle_slot_holds_no_wal,
)
from tests.receiver.test_stopping import (
    test_in_the_middle_of_a_flood,
    test_while_a_host_does_not_answer,
    test_while_the_store_hangs,
    test_while_waiting_out_a_pause,
)
from tests.receiver.test_two_phase import (
    test_a_gid_used_again_in_one_batch_names_two_transactions,
    test_a_streamed_transaction_that_is_prepared_ends_in_a_later_session,
    test_a_transaction_prepared_before_the_slot_was_ready_comes_whole_with_its_commit,
)
from tests.receiver.test_values import (
    test_a_message_too_long_for_jsonb_goes_aside,
    test_a_moved_key_is_found_under_both_keys,
    test_dropped_and_masked_columns_are_never_kept,
    test_shapes_that_flip_within_one_batch_stay_with_their_rows,
    test_times_that_no_calendar_has_are_left_out,
    test_unchanged_toast_is_absent_from_the_new_row,
    test_under_full_the_key_is_the_primary_key_of_the_catalog,
)

#: Each takes its seconds; make test runs them all.
pytestmark = pytest.mark.slow


@pytest.fixture
def record(record):
    """Slots of the SQL interface."""
    return partial(record, interface="sql")
