"""The file behind `Scorer.save`: nothing in it is executed or unpickled."""
