"""The orchestrator decides and drives. Imported by nobody.

fire.py        one fire, step by step: close, admit, sweep, decide, fan out, barrier, close
admission.py   whether a fire may open, by the interlocks, under one lock
decide.py      from a snapshot of the queue to a plan: pure
snapshot.py    reads that snapshot
barrier.py     the wait for every worker, with the fire's deadlines
launchers/     what starts workers: processes of this machine
render.py      a note's facts as Markdown
delivery.py    sends notes to their channels: channels/ has one module a kind, message.py what is sent
progress.py    what a person sees while a fire runs

config.py      composes every room's settings from config.toml, the environment and flags
logs.py        structlog: human on a terminal, JSON elsewhere
cli.py         the command line: commands.py puts it together, cli_*.py hold its groups
fire_command.py  a plain `stoker fire`, without what the command line is built with
gate.py        what is said of a gate that was forgotten
doctor.py      what is wrong here, and what to do; usable.py tries what is named, config_lines.py says where it is named
"""
