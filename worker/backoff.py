"""When a failed task is tried again: capped exponential backoff with jitter, in bounds for any attempt."""

import math
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """``base`` seconds after the first attempt, times ``factor`` after each further one, never above ``cap`` seconds."""

    base: float = 2.0
    factor: float = 2.0
    cap: float = 300.0

    def delay(self, attempt: int) -> float:
        """Seconds to wait after attempt number ``attempt`` (from 1), without jitter; between 0 and ``cap``."""
        if self.base <= 0:
            return 0.0
        steps = max(attempt, 1) - 1
        if self.factor > 1 and steps * math.log(self.factor) + math.log(self.base) >= math.log(max(self.cap, 1e-9)):
            return self.cap
        return min(self.cap, self.base * self.factor**steps)

    def jittered(self, attempt: int, chance: float | None = None) -> float:
        """A delay between half of ``delay`` and all of it; ``chance`` in [0, 1) decides, by default at random."""
        chance = random.random() if chance is None else chance  # noqa: S311 - jitter is no secret
        return self.delay(attempt) * (0.5 + chance / 2)
