"""replview's commands, in the package layout that Django expects."""
