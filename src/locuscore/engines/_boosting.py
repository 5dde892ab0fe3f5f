"""Where archives written by earlier versions look for their boosted trees."""

from locuscore._shared.boosting import BoostedTrees

__all__ = ["BoostedTrees"]
