"""The PostgreSQL that stoker runs for a newcomer, in a folder of the project (``.stoker/``).

- ``cluster``: ``ensure``, ``url`` and ``stop``: the life of the server;
- ``launch``: a new data folder, and the server started in it;
- ``binaries``: which PostgreSQL is there, and where;
- ``place``: the files in the folder, who may own them, and the locks on them;
- ``account``: under which account PostgreSQL can run here (it refuses root), and the one way it is started;
- ``identity``: who answers on a socket, and whether a process is this folder's server.

Two locks tell the truth that a pid file cannot. ``lock`` is held by whoever starts or stops, and by the ``initdb`` it
started, so that nobody cleans up under a living one. ``server.lock`` is inherited by the server and its children: it
is free exactly when none of them lives, whatever ``postmaster.pid`` says.
"""

from stoker.sql.embedded.binaries import Binaries, find_binaries
from stoker.sql.embedded.cluster import ensure, stop, url
from stoker.sql.embedded.failure import EmbeddedServerError, NoBinariesError, ServerStartError, ServerStopError
from stoker.sql.embedded.launch import Options

__all__ = [
    "Binaries",
    "EmbeddedServerError",
    "NoBinariesError",
    "Options",
    "ServerStartError",
    "ServerStopError",
    "ensure",
    "find_binaries",
    "stop",
    "url",
]
