"""The graphs: every node, edge and router of each workflow on one page."""
