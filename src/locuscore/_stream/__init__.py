"""Bounds that adapt to a stream of rows, and the rows that wait for their labels."""
