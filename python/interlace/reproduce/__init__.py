"""Compares a paper's published figures with simulated and measured ones: `interlace reproduce`."""
