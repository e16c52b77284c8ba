"""Readers and generators of graphs, matrices, ratings and grids."""
