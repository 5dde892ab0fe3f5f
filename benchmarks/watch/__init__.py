"""Alarms after deployment: how often they ring while promises are kept, and how soon otherwise."""
