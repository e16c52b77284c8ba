"""Errors, files, tables, progress, interrupts: used by all other packages."""
