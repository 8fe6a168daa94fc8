"""Which row each change of a batch is of, where rows move from key to key."""

from replview.spark.lake.row_chains import RowChains

MOVE = ("update_preimage", "update_postimage")


def numbers(*changes: tuple[object, ...]) -> list[int]:
    chains = RowChains()
    return [chains.number_of(*change) for change in changes]


def moved(before: str, after: str, digests: tuple[int | None, int | None] = (None, None)) -> list:
    return [(kind, *rest) for kind, *rest in zip(MOVE, (before, after), digests, strict=True)]


def test_a_swap_by_a_free_key_keeps_both_rows_apart() -> None:
    # a → free, b → a, free → b
    found = numbers(*moved("a", "free"), *moved("b", "a"), *moved("free", "b"))
    assert found == [1, 1, 2, 2, 1, 1]


def test_a_deleted_rows_key_is_another_rows_later() -> None:
    found = numbers(("delete", "a"), ("insert", "a"), *moved("a", "b"), ("update_postimage", "a"))
    assert found == [1, 2, 2, 2, 3]


def test_a_deferrable_key_that_two_rows_have_is_told_by_whole_rows() -> None:
    # The second row comes to the key of the first, and the first one is deleted.
    found = numbers(("insert", "a", 10), *moved("b", "a", (20, 21)), ("delete", "a", 10),
                    ("delete", "a", 21))  # fmt: skip
    assert found == [1, 2, 2, 1, 2]


def test_without_whole_rows_the_row_that_came_first_goes_first() -> None:
    # One statement gives each of two rows the other's key.
    assert numbers(("insert", "a"), ("insert", "b"), *moved("a", "b"), *moved("b", "a")) == [
        1, 2, 1, 1, 2, 2,
    ]  # fmt: skip
