"""A worker that is killed in the middle of its claim leaves the job to another worker."""

import os
import signal
import subprocess
import sys

import pytest

from replview.jobs import drafts
from replview.runtime.failpoints import Point
from replview.runtime.servers.postgres import EmbeddedPostgres
from replview.store.models import SourceDraft
from tests.support.copied_clusters import ROOT, STORE
from tests.support.failpoints import environment
from tests.support.people import make_user
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def test_a_claim_that_was_not_committed_does_not_count(store_cluster: EmbeddedPostgres) -> None:
    draft = SourceDraft.objects.create(
        user=make_user("root", "admin"), kind="record", state="asked", answers={"name": "shop"}
    )
    worker = subprocess.run(
        [sys.executable, "manage.py", "shell", "--verbosity", "0", "--command",
         "from replview.jobs import drafts; drafts.claim(['record'])"],
        cwd=ROOT,
        env={**os.environ, "REPLVIEW_STORE_URL": store_cluster.dsn(STORE),
             **environment({Point.IN_CLAIM: "kill"})},
        timeout=120,
    )  # fmt: skip
    assert worker.returncode == -signal.SIGKILL

    draft.refresh_from_db()
    assert (draft.state, draft.started_at, draft.attempts) == ("asked", None, 0)
    # The store may not have noticed yet that the worker is gone.
    claim = wait_for(lambda: drafts.claim(["record"]))
    assert (claim.pk, claim.attempts) == (draft.pk, 1)
