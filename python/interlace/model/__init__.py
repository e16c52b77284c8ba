"""Mechanisms, the results and observations of runs, and the values of command-line options."""
