"""For authors of engines and for simulations: data with known truth, and the engine contract."""

from locuscore.testing._answers import Answers
from locuscore.testing._contracts import check_engine
from locuscore.testing._generators import GENERATORS, Generator

__all__ = ["GENERATORS", "Answers", "Generator", "check_engine"]
