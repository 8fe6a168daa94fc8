"""Plans: the statements that change a source, shown before they run."""
