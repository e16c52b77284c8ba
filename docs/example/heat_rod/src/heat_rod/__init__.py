"""Heat in a rod, a workload for Interlace."""
