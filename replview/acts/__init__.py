"""What people do to sources and slots, from a page, a program or a command: shown, then done."""
