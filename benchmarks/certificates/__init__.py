"""Certificates on risks with known truth."""
