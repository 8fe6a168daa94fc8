"""The record for programs: JSON over HTTP, with the same filters as the pages."""
