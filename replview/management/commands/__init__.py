"""replview's commands, one module each."""
