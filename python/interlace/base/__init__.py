"""Errors, files, tables, progress and interrupts, which all other packages use."""
