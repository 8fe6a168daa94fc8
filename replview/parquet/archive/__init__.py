"""Write increments to the archive, and read answers from it without a JVM."""
