"""A source's DSN is stored without its password, and the password is never shown."""

import pytest

from replview.store.dsn import full_conninfo, resolve, set_dsn, split_dsn
from replview.store.models import Source
from replview.store.reachable import DSNError
from replview.store.secrets import SecretKeyChanged, seal, unseal


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:ge%20heim@h:5/db?sslmode=require",
        "postgresql://u@h:5/db?password=ge%20heim&sslmode=require",
        "host=h port=5 user=u dbname=db sslmode=require password='ge heim'",
    ],
)
def test_the_password_is_parted_from_the_rest(dsn) -> None:
    conninfo, password = split_dsn(dsn)

    assert password == "ge heim"
    assert "heim" not in conninfo
    assert {"host=h", "port=5", "user=u", "dbname=db", "sslmode=require"} == set(conninfo.split())


def test_a_service_is_left_to_libpq() -> None:
    assert split_dsn("service=shop") == ("service=shop", None)


def test_an_environment_variable_holds_the_whole_dsn(monkeypatch) -> None:
    monkeypatch.setenv("SHOP", "host=h password=geheim")
    source = Source(name="s")

    set_dsn(source, "env:SHOP")

    assert (source.conninfo, source.sealed_password) == ("env:SHOP", "")
    assert full_conninfo(source) == "host=h password=geheim"
    monkeypatch.delenv("SHOP")
    with pytest.raises(DSNError, match="SHOP is not set"):
        full_conninfo(source)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://u:ab@geheim@h:5/db",
        "password='geheim",
        "env:",
        "env:a b",
        "host=h sslpassword=geheim",
        "host=h scram_client_key=geheim",
        "postgresql://h/d?scram_server_key=geheim",
        "host=h oauth_client_secret=geheim oauth_client_id=x",
        "geheim nonsense",
    ],
)
def test_what_cannot_be_used_is_refused_without_repeating_it(dsn) -> None:
    with pytest.raises(DSNError) as caught:
        split_dsn(dsn)
    assert "geheim" not in str(caught.value)


def test_sealed_and_unsealed(settings) -> None:
    source = Source(name="s")
    set_dsn(source, "host=h user=u password='a b\\'c'")

    assert "a b" not in source.sealed_password
    assert full_conninfo(source) == resolve(full_conninfo(source))
    assert unseal(source.sealed_password) == "a b'c"
    settings.SECRET_KEY = "another"
    with pytest.raises(SecretKeyChanged, match="REPLVIEW_SECRET_KEY"):
        full_conninfo(source)


def test_two_seals_of_one_secret_differ() -> None:
    assert seal("x") != seal("x")
