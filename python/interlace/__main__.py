"""`python -m interlace`: the command line."""

from interlace.cli import main

if __name__ == "__main__":
    main()
