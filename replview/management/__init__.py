"""Django's hook for replview's commands."""
