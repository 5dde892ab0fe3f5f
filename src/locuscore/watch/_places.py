"""Which rows are looked at without labels: fixed before they come, and not too many in a day."""

from dataclasses import dataclass, field

import numpy as np

from locuscore._protocols import IntArray
from locuscore.watch._evidence.audit import draws

A_DAY = 4_000  # rows of a day that are looked at, about
MOST_A_DAY = 20_000


@dataclass
class Place:
    """How far the rows were looked at, and how many come in a day.

    `sizes` has the numbers given in each of the last seven days with rows, `begin` the last number
    before the present day, and `today` the rows of it that were looked at.
    """

    cursor: int
    day: int = -1
    begin: int = 0
    today: int = 0
    sizes: list[int] = field(default_factory=list)

    @property
    def step(self) -> int:
        """One row of so many consecutive ones is looked at: known before the day begins."""
        busiest = max(self.sizes, default=0)
        return 1 << max(0, (max(busiest // A_DAY, 1)).bit_length() - 1)

    def enter(self, day: int) -> None:
        """Begin a day, with the first row after the cursor."""
        if day == self.day:
            return
        if self.day >= 0:
            self.sizes = [*self.sizes, self.cursor - self.begin][-7:]
        self.day, self.begin, self.today = day, self.cursor, 0

    def take(self, end: int, most: int, secret: bytes) -> IntArray:
        """Numbers to look at, of those up to `end` in this day; the cursor goes on."""
        room = MOST_A_DAY - self.today
        limit = min(room, most)
        # So many numbers have more than `limit` of those to look at.
        reach = min(end, self.cursor + (limit + 2) * self.step)
        found = picked(self.cursor, reach, self.step, secret)
        if len(found) > limit and most < room:
            found = found[:most]
            self.cursor = int(found[-1])
        else:  # the rest of a day that has too many is left out
            found, self.cursor = found[:limit], end
        self.today += len(found)
        return found


def picked(after: int, up_to: int, step: int, secret: bytes) -> IntArray:
    """One number of every `step` consecutive ones, drawn; those after one and up to another."""
    if step == 1:
        return np.arange(after + 1, up_to + 1)
    blocks = np.arange(after // step, (up_to - 1) // step + 1)
    where = draws(map(str, blocks.tolist()), secret, b"drift")
    numbers = blocks * step + 1 + (where * step).astype(np.int64)
    return numbers[(numbers > after) & (numbers <= up_to)]
