"""What may keep a stack from starting: told in one line with its remedy, never as a trace."""

from replview.text.problem import CodedProblem


class StackProblem(CodedProblem):
    """A cause and what mends it; a command prints it and exits with status 1."""

    code_of_all = "stack"

    def __str__(self) -> str:
        return f"{self.cause}. {self.remedy}." if self.remedy else f"{self.cause}."


class Stopped(Exception):
    """The user asked to stop while the stack was still starting."""
