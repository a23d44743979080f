"""The watchdog: its own process and its own fate. It notices what did not happen.

cli.py    stoker-watchdog --once: is the last fire that reached its note too long ago?
"""
