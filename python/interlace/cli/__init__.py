"""The command line. Each command has a file of its own."""
