"""The command line. Results go to standard output, everything else to standard error.

Exit codes: 0 done; 1 internal error; 2 usage or configuration; 75 database unreachable; 130/143 ended by a signal; with
``fire --exit-code`` also 10 some tasks failed, 11 refused, 13 note not delivered.
"""

import gc
import io
import os
import sys

USAGE = 2


def main() -> None:
    """Run the command line; every known failure has its exit code and one clear message."""
    gc.disable()  # while what stays is imported; the session looks for garbage again once its database is open
    _open_standard_streams()
    if any(_is_no_text(argument) for argument in sys.argv):
        sys.stderr.write("stoker: an argument is not UTF-8\n")
        sys.exit(USAGE)
    try:
        _run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from stoker.orchestrator.failures import exit_code, message

        code = exit_code(error)
        if code is None:
            raise
        sys.stderr.write(f"stoker: {message(error)}\n")
        sys.exit(code)
    finally:
        _let_readers_go()


def _run(words: list[str]) -> None:
    """A plain fire goes the short way, everything else through the full command line."""
    from stoker.orchestrator import fire_command
    from stoker.orchestrator.session import Session

    options = fire_command.read(words)
    if options is not None:
        sys.exit(fire_command.run(Session(options.config), options))
    from stoker.orchestrator.commands import app

    app()


def _let_readers_go() -> None:
    """Whoever read the results may be gone: the interpreter must not complain when it flushes at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _open_standard_streams() -> None:
    """A command started with a closed stream gets an empty one, so that nothing else takes its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - stays open
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _is_no_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:
        return True
    return False


if __name__ == "__main__":
    main()
