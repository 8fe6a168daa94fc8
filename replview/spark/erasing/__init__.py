"""Erasing rows from exported slices and the archive: files written anew, one by one."""
