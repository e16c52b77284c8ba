"""Searches for the fastest configurations, and keeps them in profiles."""
