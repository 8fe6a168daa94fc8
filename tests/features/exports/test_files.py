"""All files of an export in one zip: as they were written, for whoever may see what they hold."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from replview.access.visibility import forget
from replview.features.exports import files
from replview.store.models import AccessRecord, Export, MaskRule
from tests.support.commands import an_instance as an_instance  # a fixture
from tests.support.commands import run as run  # a fixture
from tests.support.history_rows import History
from tests.support.people import make_user

pytestmark = pytest.mark.slow


@pytest.fixture
def written(history: History, run: Callable[..., str], tmp_path: Path) -> Export:
    forget()
    run("export", slot="shop/replview", to=str(tmp_path / "out"))
    return Export.objects.get()


def signed_in(**facts: Any) -> Client:
    client = Client()
    client.force_login(make_user(**facts))
    return client


def test_the_zip_has_every_file_as_it_was_written(
    written: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIECE_BYTES", 1_000)
    client, address = signed_in(), f"/exports/{written.pk}/files/"
    assert f'href="{address}"' in client.get(f"/exports/{written.pk}/").content.decode()
    answer = client.get(address)
    assert answer.status_code == 200
    assert answer["Content-Disposition"] == f'attachment; filename="export-{written.pk}.zip"'
    pieces = list(answer.streaming_content)  # type: ignore[attr-defined]
    # In memory is one at a time; the last one is the zip's list of files.
    assert max(map(len, pieces[:-1])) < 1_500
    with zipfile.ZipFile(io.BytesIO(b"".join(pieces))) as found:
        assert found.testzip() is None
        assert written.result is not None
        names = {each["path"] for each in written.result["files"]}
        assert names < {*found.namelist()}
        assert {name.rpartition("/")[2] for name in {*found.namelist()} - names} == {"_schema.json"}
        for name in found.namelist():
            assert found.read(name) == (tmp_path / "out" / name).read_bytes()
    assert AccessRecord.objects.filter(action="downloaded", subject=f"export {written.pk}").exists()

    # Of files that are not as they were nothing is sent.
    (tmp_path / "out" / min(names)).write_bytes(b"another")
    page = client.get(f"/exports/{written.pk}/").content.decode()
    assert "Download not available: the files are not as they were written" in page
    assert client.get(address).status_code == 403


def test_it_is_for_whoever_may_see_what_it_holds(written: Export, history: History) -> None:
    address = f"/exports/{written.pk}/files/"
    assert signed_in(name="viewer", role="viewer").get(address).status_code == 403
    MaskRule.objects.create(table_pattern="public.orders", column_pattern="status", when="display")
    forget()
    operator = signed_in()
    assert operator.get(address).status_code == 403
    page = operator.get(f"/exports/{written.pk}/").content.decode()
    assert "status of public.orders is masked now, and in it" in page
    MaskRule.objects.all().delete()
    forget()
    assert operator.get(address).status_code == 200
    sources = [history.slot.source]
    few = signed_in(name="few", sources=sources, tables=["public.others"])
    assert few.get(address).status_code == 403
    nobody = signed_in(name="nobody", sources=[])
    assert nobody.get(address).status_code == 404
    forget()
