"""Nodes that run workloads: the reference, simulated machines, GPUs, peers and ranks."""
