"""The list of transactions, and the page of one transaction with its changes."""
