"""What a keeper says to its runner: a line of JSON for about a million characters of tasks.

    [first number, [[lo, hi, attempt], ...], [places to pass over], [payload, ...]]

Payloads go through as they came from the database, as text: the keeper neither reads nor writes them one by one.
"""

import json
from collections.abc import Iterator

from stoker.worker.book import Claim

_FRAME_CHARACTERS = 1 << 20


def frames(claim: Claim) -> Iterator[bytes]:
    """The lines for a claim that has its numbers. Places are counted from the first number of a line."""
    over = {*range(claim.passed), *claim.ahead}
    start = stop = size = 0
    texts: list[str] = []
    for chunk in claim.chunks:
        stop, size = stop + chunk.tasks, size + len(chunk.payloads)
        texts.append(chunk.payloads)
        if size > _FRAME_CHARACTERS or stop == claim.size:
            spans = [(lo, hi, spent + 1) for lo, hi, spent in claim.ids([(start, stop)])]
            skip = [place - start for place in range(start, stop) if place in over] if over else []
            head = json.dumps([claim.base + start, spans, skip])[:-1]
            yield f"{head},[{','.join(texts)}]]".replace("\n", " ").replace("\r", " ").encode() + b"\n"
            start, size, texts = stop, 0, []
