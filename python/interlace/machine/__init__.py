"""Reads, checks and writes machine descriptions."""
