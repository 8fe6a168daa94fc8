"""replview's commands, one module per command."""
