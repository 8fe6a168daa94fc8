"""Where an export may be written."""

from pathlib import Path

import pytest

from replview.targets.policy import Policy, Refused, check_again, target_of


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
