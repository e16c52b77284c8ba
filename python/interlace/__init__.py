"""Interlace moves data between the GPUs of a node while they compute."""
