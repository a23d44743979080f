"""What keepers are forked from: a process that has imported all that a keeper needs, and waits.

    python -P -m stoker.worker.template SOCKET        (hygiene/template.py says who asks it, and how)

It is started while the orchestrator makes up its mind, so that a pool is paid for with one start of an interpreter.
"""

import gc
import sys


def main() -> None:
    """Import, then serve. What is imported stays: looking for garbage in it meanwhile would be a tenth of the time."""
    gc.disable()
    import anyio._backends._asyncio  # noqa: F401 - what anyio.run imports at its first call

    from stoker.hygiene.template import serve
    from stoker.sql import database  # noqa: F401 - these three a keeper imports after its runner was started
    from stoker.worker import desk, keeper, shift  # noqa: F401

    serve(int(sys.argv[1]), keeper.main)


if __name__ == "__main__":
    main()
