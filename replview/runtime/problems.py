"""What may keep a stack from starting: told in one line with its remedy, never as a trace."""


class StackProblem(Exception):
    """A cause and what mends it; a command prints it and exits with status 1."""

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.cause = cause
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.cause}. {self.remedy}." if self.remedy else f"{self.cause}."


class Stopped(Exception):
    """The user asked to stop while the stack was still starting."""
