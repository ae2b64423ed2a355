"""Outputs: each module renders reports or traces; none computes a figure."""
