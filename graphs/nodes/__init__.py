"""The nodes of the graphs, one module for each step of the work."""
