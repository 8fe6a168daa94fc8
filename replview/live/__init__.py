"""Live streams to the browser, through Channels."""
