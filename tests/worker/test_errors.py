"""What is told of an exception: here, the place."""

import asyncio
import json
import traceback

from stoker.worker.errors import place_of


def fails() -> None:
    json.loads("{")


async def waits() -> None:
    async with asyncio.timeout(0):
        await asyncio.sleep(9)


def test_the_place_is_the_last_line_of_the_handlers_own_code() -> None:
    """Not that of the library in which it raised, which says nothing to who repairs it."""
    for call, words in ((fails, "json.loads"), (lambda: asyncio.run(waits()), "asyncio.")):
        try:
            call()
        except (ValueError, TimeoutError) as error:
            place = place_of(error)
            lines = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == __file__]
            assert place == f" (test_errors.py:{lines[-1].lineno})"
            assert words in str(lines[-1].line)


def test_without_a_line_there_is_no_place() -> None:
    assert place_of(ValueError()) == ""
