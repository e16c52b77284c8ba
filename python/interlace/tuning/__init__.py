"""Searches for the fastest configuration, and the profiles that keep it."""
