"""Addresses of sources are checked for the hosts, files and variables that they name."""

import pytest

from replview.store.reachable import DSNError, check_address, check_given

ALLOWED = ["*.db.example", "10.0.0.0/8", "2001:db8::/32", "192.0.2.7"]


@pytest.fixture
def bounded(settings, monkeypatch) -> None:
    """An instance that connects to its own network alone."""
    settings.SOURCE_HOSTS = ALLOWED
    for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE", "PGSERVICEFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "conninfo",
    [
        "host=one.db.example",
        "host=ONE.DB.example.",
        "host=10.1.2.3",
        "host=::ffff:10.1.2.3",
        "host=2001:db8::5",
        "host=one.db.example,10.0.0.1 port=5432,5433",
        "host=anything.example hostaddr=192.0.2.7",
        "postgresql://user@one.db.example:5432/shop",
    ],
)
def test_what_the_patterns_name_is_connected_to(bounded, conninfo: str) -> None:
    check_address(conninfo)


@pytest.mark.parametrize(
    "conninfo",
    [
        "host=127.0.0.1",
        "host=localhost",
        "host=169.254.169.254",
        "host=::ffff:127.0.0.1",
        # Other notations of 10.0.0.1 and 127.0.0.1 are names, and no pattern's.
        "host=0x7f000001",
        "host=2130706433",
        "host=one.db.example.evil.example",
        "host=10.0.0.1.evil.example",
        # The one that is connected to is the address, or any of several.
        "host=one.db.example hostaddr=127.0.0.1",
        "host=one.db.example,127.0.0.1",
        "host=one.db.example, port=5432",
        "host=/var/run/postgresql",
        "host=@abstract",
        "dbname=shop",
        "service=nowhere",
    ],
)
def test_whatever_else_is_refused(bounded, conninfo: str) -> None:
    with pytest.raises(DSNError):
        check_address(conninfo)


def test_a_service_is_followed_to_its_host(bounded, tmp_path, monkeypatch) -> None:
    file = tmp_path / "services"
    file.write_text("[inside]\nhost=one.db.example\n[outside]\nhost=127.0.0.1\n[asks]\nldap://x\n")
    monkeypatch.setenv("PGSERVICEFILE", str(file))

    check_address("service=inside")
    for name in ("outside", "asks"):
        with pytest.raises(DSNError):
            check_address(f"service={name}")
    # The connection string takes precedence over the service.
    with pytest.raises(DSNError):
        check_address("service=inside host=127.0.0.1")


def test_of_several_hosts_each_is_looked_at_with_its_own_address(bounded, settings) -> None:
    settings.SOURCE_HOSTS = ["socket", "10.0.0.0/8", "*.db.example"]
    check_address("host=one.db.example,x hostaddr=,10.0.0.1 port=5432,5432")
    with pytest.raises(DSNError, match=r"evil\.example"):
        check_address("host=one.db.example,evil.example hostaddr=10.0.0.1, port=5432,5432")


def test_no_other_host_is_asked_who_may_sign_in(bounded) -> None:
    with pytest.raises(DSNError):
        check_address("host=one.db.example oauth_issuer=http://127.0.0.1/ oauth_client_id=x")


def test_a_socket_is_allowed_by_its_folder_or_as_such(settings) -> None:
    settings.SOURCE_HOSTS = ["/var/run/postgresql"]
    check_address("host=/var/run/postgresql/")
    with pytest.raises(DSNError):
        check_address("host=/tmp")
    settings.SOURCE_HOSTS = ["socket"]
    check_address("host=/tmp")


def test_a_file_that_libpq_would_write_is_never_named(settings) -> None:
    settings.SOURCE_HOSTS = []
    with pytest.raises(DSNError, match="sslkeylogfile"):
        check_address("host=x sslkeylogfile=/tmp/keys")


@pytest.fixture
def in_a_page(settings, tmp_path) -> str:
    """A process that serves pages, and the folder they may name files in."""
    settings.SERVES_PAGES = True
    settings.SOURCE_FILES = [str(tmp_path)]
    return str(tmp_path)


def test_a_page_names_files_only_where_they_may_be(in_a_page: str, tmp_path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    check_given(f"host=x sslkey={in_a_page}/a.key sslrootcert=system", f"file:{in_a_page}/password")
    for dsn, reference in [
        ("host=x passfile=/root/.pgpass", ""),
        (f"host=x sslkey={in_a_page}/../key", ""),
        (f"host=x sslcert={in_a_page}/out/passwd", ""),
        ("host=x sslrootcert=relative.crt", ""),
        ("host=x", "file:/etc/hostname"),
        ("host=x", f"file:{in_a_page}/out/hostname"),
    ]:
        with pytest.raises(DSNError, match="REPLVIEW_SOURCE_FILES"):
            check_given(dsn, reference)


def test_a_page_cannot_have_our_own_secrets_sent_anywhere(in_a_page: str) -> None:
    check_given("host=x", "env:SHOP_PASSWORD")
    check_given("env:REPLVIEW_SOURCE_SHOP")
    for name in ("REPLVIEW_SECRET_KEY", "REPLVIEW_STORE_URL", "REPLVIEW_LOGIN_PASSWORD", "HOME"):
        for given in (("host=x", f"env:{name}"), (f"env:{name}", "")):
            with pytest.raises(DSNError, match="REPLVIEW_SOURCE_VARIABLES"):
                check_given(*given)


def test_options_of_a_page_are_settings_and_no_more(in_a_page: str) -> None:
    check_given("host=x options='-c work_mem=4MB -cgeqo=off --jit=off endpoint=ep-1'")
    with pytest.raises(DSNError, match="options"):
        check_given("host=x options='-P'")


def test_on_the_command_line_anything_may_be_named(settings) -> None:
    settings.SERVES_PAGES = False
    check_given("host=x passfile=/root/.pgpass", "file:/etc/hostname")


def test_what_the_source_names_already_may_stay_but_not_its_passwords_elsewhere(in_a_page) -> None:
    known = "host=x sslrootcert=/etc/ca.pem passfile=/root/.pgpass"
    check_given(f"{known} user=other", known=known)
    check_given("host=y sslrootcert=/etc/ca.pem", known=known)
    with pytest.raises(DSNError, match="passfile"):
        check_given(known.replace("host=x", "host=y"), known=known)
    with pytest.raises(DSNError, match="sslrootcert"):
        check_given("host=x sslrootcert=/etc/passwd", known=known)
