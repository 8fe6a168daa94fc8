"""The list of transactions, and one transaction with its changes."""
