"""The policy for export targets allows and refuses folders and servers."""

import re
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from replview.parquet.writing.problems import TargetProblem
from replview.parquet.writing.targets import Target
from replview.targets import policy as targets
from replview.targets.policy import (
    DEFAULT_SCHEMES,
    Policy,
    Refused,
    check_again,
    target_of,
    try_target,
)


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    """A folder of the instance's, and S3."""
    root = tmp_path / "root"
    root.mkdir()
    return Policy(allowed=True, root=root, schemes=("s3",))


def test_a_relative_folder_stands_within_the_root(policy: Policy) -> None:
    assert target_of("a/b", policy, anywhere=False) == str(policy.root / "a/b")
    within = f"file://{policy.root}/c%20d"
    assert target_of(within, policy, anywhere=False) == str(policy.root / "c d")


@pytest.mark.parametrize(
    "text",
    ["", "../x", "a/../../x", "/etc", "file:///etc", "file://other/x", "a\0b", "s3://bucket/x",
     "ftp://host/x", "x" * 2000],
)  # fmt: skip
def test_most_may_write_nowhere_else(policy: Policy, text: str) -> None:
    with pytest.raises(Refused):
        target_of(text, policy, anywhere=False)


def test_a_link_that_leads_out_is_followed_before_it_is_judged(policy: Policy, tmp_path) -> None:
    (policy.root / "out").symlink_to(tmp_path)
    with pytest.raises(Refused, match="only folders within"):
        target_of("out/x", policy, anywhere=False)


def test_a_link_made_later_is_found_before_it_is_written(policy: Policy, tmp_path) -> None:
    target = target_of("later", policy, anywhere=False)
    (policy.root / "later").symlink_to(tmp_path)
    with pytest.raises(Refused):
        check_again(target, policy, anywhere=False)


def test_admins_may_write_elsewhere_but_not_record_secrets(policy: Policy, tmp_path) -> None:
    assert target_of(str(tmp_path), policy, anywhere=True) == str(tmp_path)
    assert target_of("s3://bucket/x/", policy, anywhere=True) == "s3://bucket/x"
    for text in ("s3://key:secret@bucket/x", "s3://bucket/x?secret_key=1", "gs://bucket/x"):
        with pytest.raises(Refused):
            target_of(text, policy, anywhere=True)


@pytest.mark.parametrize("name", ["sas", "credential", "X-Amz-Credential", "accesskey", "%73ig"])
def test_an_address_with_a_secret_is_refused_when_asked_for_and_when_written(
    policy: Policy, name: str
) -> None:
    text = f"abfs://box/x?{name}=hidden"
    with pytest.raises(Refused, match="has a secret in it"):
        target_of(text, replace(policy, schemes=DEFAULT_SCHEMES), anywhere=True)
    with pytest.raises(TargetProblem, match="holds credentials"):
        Target.of(text)


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("s3://bucket/x?endpoint_override=169.254.169.254", "169.254.169.254"),
        ("s3://bucket/x?endpoint_override=http://[::1]:9000", "::1"),
        ("gs://bucket/x?endpoint_override=evil.example:1", "evil.example"),
        ("abfs://c@account.dfs.evil.example/x", "account.dfs.evil.example"),
        ("hdfs://evil.example:8020/x", "evil.example"),
    ],
)
def test_servers_that_an_address_names_are_under_the_allow_list(
    policy: Policy, text: str, host: str, settings
) -> None:
    policy = replace(policy, schemes=DEFAULT_SCHEMES)
    assert target_of(text, policy, anywhere=True)
    settings.SOURCE_HOSTS = ["*.store.example", "10.0.0.0/8"]
    with pytest.raises(Refused, match=re.escape(host)):
        target_of(text, policy, anywhere=True)
    for good in ("s3://bucket/x", "s3://bucket/x?endpoint_override=10.1.2.3:9000",
                 "hdfs://a.store.example/x"):  # fmt: skip
        assert target_of(good, policy, anywhere=True) == good


def test_a_server_that_does_not_answer_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr(targets, "TRIAL_SECONDS", 3.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        began = time.monotonic()
        with pytest.raises(Refused, match="did not answer within 3 s"):
            try_target(f"s3://bucket/x?endpoint_override=127.0.0.1:{port}&scheme=http&region=eu")
    assert time.monotonic() - began < 60
