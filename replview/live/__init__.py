"""This package sends live streams to the browser, through Channels."""
