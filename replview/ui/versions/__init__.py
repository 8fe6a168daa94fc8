"""What is different between two versions of a table, and which columns were likely renamed."""
