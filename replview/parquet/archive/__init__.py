"""The archive: increments written to it, and answers read from it without a JVM."""
