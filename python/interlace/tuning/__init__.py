"""Searches for the fastest configuration, and the profiles that store it."""
