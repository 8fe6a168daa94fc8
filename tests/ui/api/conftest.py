"""A program with a token."""

from tests.support.api_program import program as program
from tests.support.api_program import user as user
