"""`python -m interlace`: the command line."""

from interlace.cli.start import main

if __name__ == "__main__":
    main()
