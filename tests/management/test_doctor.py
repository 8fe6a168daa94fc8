"""``replview doctor``."""

import json

import pytest
from django.core.management.base import CommandError


def test_findings_are_lines_with_their_remedy_below(run, shop) -> None:
    text = run("doctor", shop.dsn)

    assert "ok       connected to" in text
    assert "warning  1 of 2 tables have no usable replica identity" in text
    assert "\n         → ALTER TABLE" in text
    assert text.rstrip().splitlines()[-1].startswith("can be replicated")
    assert shop.server.password not in text


def test_json(run, shop) -> None:
    findings = json.loads(run("doctor", shop.dsn, "--format", "json"))

    assert {"grade", "code", "message", "remedy"} == findings[0].keys()


def test_what_blocks_is_the_exit_status(run, shop) -> None:
    with pytest.raises(SystemExit) as caught:
        run("doctor", shop.dsn.replace(shop.name, "nowhere"))
    assert caught.value.code == 1


def test_a_sources_name_stands_for_its_dsn(run, registered, shop) -> None:
    assert f"connected to {shop.name}" in run("doctor", "shop")


def test_a_store_in_the_same_cluster_is_seen(run, store_cluster) -> None:
    text = run("doctor", store_cluster.dsn())
    assert "replview's store is in the same cluster" in text


def test_a_bad_dsn_is_one_line(run) -> None:
    with pytest.raises(CommandError) as caught:
        run("doctor", "password='geheim")
    assert "geheim" not in str(caught.value)
