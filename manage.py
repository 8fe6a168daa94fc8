#!/usr/bin/env python
"""Django's command-line entry; the same commands as ``replview``."""

from replview.cli import main

if __name__ == "__main__":
    main()
