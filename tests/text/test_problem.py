"""A problem names the field that it is about; each front says where that is given."""

from replview.management.fleet.plans import KEYS
from replview.management.instance import OPTIONS
from replview.text.problem import Problem
from replview.ui.sentence import PLACES

REFUSED = Problem("no_such_table", "there is no table", "Choose the tables again", "tables")


def test_each_front_says_where_the_field_is_given() -> None:
    assert (
        str(REFUSED.with_places(OPTIONS)) == "there is no table. Choose the tables again (--tables)"
    )
    assert REFUSED.with_places(PLACES).remedy == "Choose the tables again (in the step Tables)"
    assert REFUSED.with_places(KEYS).remedy == "Choose the tables again (tables)"
    assert REFUSED.remedy == "Choose the tables again"


def test_a_front_without_the_field_says_the_sentence_alone() -> None:
    assert REFUSED.with_places({}).remedy == REFUSED.remedy
