"""The columns of lists of changes."""

from replview.features.find import columns as find


def test_a_found_change_has_all_its_cells_in_or_beside_its_line() -> None:
    assert (*find.IN_LINE, *find.BESIDE_LINE) == find.COLUMNS
