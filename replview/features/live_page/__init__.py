"""The live page, which shows transactions as they commit."""
