"""Measurements: the paper's evaluation, what decided a default, and what things cost."""
