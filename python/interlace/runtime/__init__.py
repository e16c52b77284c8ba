"""Regions, copies and checkpoints for programs."""
