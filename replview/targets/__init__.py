"""The rules for targets of exports, and pages that show data from the archive."""
