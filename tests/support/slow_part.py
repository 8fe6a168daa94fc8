"""Selects the tests that ``make test-fast`` leaves out, besides those marked one by one.

The rest needs the store and nothing else: the decoder, the store, words, forms, pages, the API.
It tries few of hypothesis's examples (``--hypothesis-profile quick``).
"""

import hypothesis
import pytest

# Tests run side by side on few processors: how long an example takes says nothing there.
_PATIENT = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("patient", **_PATIENT)
hypothesis.settings.register_profile("quick", max_examples=20, **_PATIENT)
hypothesis.settings.load_profile("patient")

#: Whatever takes one of these takes its time: a server besides the store, a receiver at work.
_FIXTURES = {
    "source_clusters",
    "record",
    "redis_server",
    "provider",
}
#: Modules whose tests take half a second and more, mostly to build what they look at; and single
#: tests that wait for something, start a program, or try very much.
LONG = {
    "tests/features/accounts/test_accounts.py::test_two_admins_who_close_each_other_at_once_leave_one",
    "tests/features/accounts/test_matrix.py",
    "tests/catalog/test_doctor.py::test_a_poor_server_is_told_setting_by_setting",
    "tests/management/test_slot_log.py",
    "tests/decoder/test_captured_streams.py::test_the_hot_road_refuses_cut_and_overlong_frames",
    "tests/decoder/test_hot_road.py",
    "tests/store/test_archive.py",
    "tests/store/test_before_images.py",
    "tests/store/test_change_lines.py",
    "tests/store/test_connecting.py::test_a_worker_keeps_its_connection_whatever_its_environment_says_of_a_pool",
    "tests/store/test_export_targets.py::test_a_server_that_does_not_answer_is_given_up",
    "tests/store/test_initial_migration.py",
    "tests/store/test_keeping.py",
    "tests/store/test_migrations_locks.py",
    "tests/store/test_retention.py",
    "tests/store/test_searching.py",
    "tests/store/test_series.py::test_it_is_what_plain_bucketing_gives",
    "tests/test_light_workers.py",
    "tests/features/actors/test_actors.py",
    "tests/features/alerts/test_alert_rules.py",
    "tests/features/exports/test_exports.py",
    "tests/features/exports/test_narrowing.py",
    "tests/features/find/test_find.py",
    "tests/features/history/test_history_jobs.py",
    "tests/privacy/test_access_record.py",
    "tests/ui/test_garbage.py",
    "tests/access/test_hardening.py::test_no_address_leads_to_a_host_that_a_link_names",
    "tests/access/test_hardening.py::test_production_settings_pass_django_s_own_check",
    "tests/features/in_flight/test_in_flight.py",
    "tests/features/slots/test_quarantine.py",
    "tests/features/slots/test_slot_page.py::test_queries_do_not_grow_with_the_log",
    "tests/features/slots/test_slots_page.py",
    "tests/features/transactions/test_transactions.py",
}


def takes_its_time(item: pytest.Item) -> bool:
    """Return True if a test is slow although its module does not say so."""
    fixtures = set(getattr(item, "fixturenames", ()))
    named = {item.nodeid.split("::")[0], item.nodeid.split("[")[0]}
    return bool(fixtures & _FIXTURES or named & LONG)
