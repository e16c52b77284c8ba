"""Reads and generates graphs, matrices and ratings."""
