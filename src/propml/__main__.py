"""``python -m propml``: the command line where no script ``propml`` is on the path."""

from propml.cli import main

if __name__ == "__main__":
    main()
