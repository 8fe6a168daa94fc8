"""``replview source``."""

import json

import pytest
from django.core.management.base import CommandError

from replview.store.dsn import full_conninfo
from replview.store.models import Slot, Source


def test_the_password_is_sealed_and_never_shown(run, registered, shop) -> None:
    password = shop.server.password

    listed = run("source", "list") + run("source", "list", "--format", "json")

    assert password not in registered.conninfo + registered.sealed_password + listed
    assert password in full_conninfo(registered)


def test_an_unreachable_source_needs_yes(run) -> None:
    dsn = "postgresql://u:geheim@127.0.0.1:1/x"
    with pytest.raises(CommandError) as caught:
        run("source", "add", "far", "--dsn", dsn)
    assert "--yes" in str(caught.value)
    assert not Source.objects.exists()

    assert "geheim" not in run("source", "add", "far", "--dsn", dsn, "--yes")


def test_a_dsn_from_the_environment_is_kept_as_its_name(run, shop, monkeypatch) -> None:
    monkeypatch.setenv("MY_SHOP", shop.dsn)

    run("source", "add", "shop", "env:MY_SHOP")

    source = Source.objects.get()
    assert (source.conninfo, source.sealed_password) == ("env:MY_SHOP", "")
    assert full_conninfo(source) == shop.dsn
    monkeypatch.delenv("MY_SHOP")
    with pytest.raises(CommandError, match="MY_SHOP is not set"):
        run("doctor", "shop")


def test_a_name_is_given_once(run, registered, shop) -> None:
    with pytest.raises(CommandError, match="already a source shop"):
        run("source", "add", "shop", "--dsn", shop.dsn)


def test_json_lists_what_is_known(run, registered) -> None:
    (facts,) = json.loads(run("source", "list", "--format", "json"))
    assert facts["name"] == "shop"
    assert facts["password_sealed"] is True
    assert facts["server_version"] is None


def test_a_source_with_slots_is_not_removed(run, registered) -> None:
    slot = Slot.objects.create(source=registered, name="replview")
    with pytest.raises(CommandError, match="replview slot remove shop"):
        run("source", "remove", "shop")

    slot.delete()
    run("source", "remove", "shop")
    assert not Source.objects.exists()


def test_an_unknown_name_names_the_known(run, registered) -> None:
    with pytest.raises(CommandError, match="no source ship; known: shop"):
        run("source", "remove", "ship")
