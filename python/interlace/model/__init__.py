"""Mechanisms, results of runs, observations and the values of options."""
