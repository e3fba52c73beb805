"""``python -m hemiola``: the command line."""

from ._command_line import main

if __name__ == "__main__":
    raise SystemExit(main())
