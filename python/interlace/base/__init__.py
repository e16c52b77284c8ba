"""Errors, files, progress, interrupts: used by all other packages."""
