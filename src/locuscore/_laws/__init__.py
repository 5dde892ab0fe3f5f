"""From draws to one law per row, a calibrated level, and scores."""
