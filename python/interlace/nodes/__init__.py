"""Nodes that run workloads: the reference node, simulated machines, and GPUs."""
