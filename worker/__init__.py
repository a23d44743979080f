"""The disposable worker: it takes a capped number of tasks, and dies.

A worker is two processes. The keeper owns the database, the tokens, the leases, the limits and the clock, and imports
no user code; the runner imports the handlers and nothing of the database.

    task.py      what a handler is given: the API users write against; outcomes.py what it may return
    settings.py  the sections of config.toml that belong to this room
    orders.py    what a keeper is told on its standard input

    template.py  what keepers are forked from
    keeper.py    the keeper's life: register, work, leave
    shift.py     its work: claim, feed, collect, settle, until there is a reason to leave
    limits.py    what that reason may be, and when the runner must be ended
    book.py      the claims it holds, and what has become of each task
    pace.py      how many tasks to take next, and from where on
    desk.py      its dealings with the database: claim, settle, give back; settlement.py what became of a claim
    clerk.py     what a running task needs of the database: steps, progress, who is called off; notices.py until then
    pen.py       the runner it keeps: start, feed, hear, end
    wire.py      the pipes to it; frames.py what goes in, said.py and over.py what is learned
    command.py   the same for a mode whose runner is the user's own program; pipes.py and listener.py speak with it
                 (long_line.py: a line of it that is too long to be kept)
    capture.py   what tasks print, task by task, bounded

    runner.py    the runner: run what is fed by the handler that found.py finds; overlap.py runs several at a time
    steps.py     steps and progress as the runner sees them; calling_off.py cancels async handlers
    slate.py     the shared page on which a runner says what it does; it survives the runner
    pieces.py    JSON cut into its parts without reading it
    verdict.py   what an attempt that is not done makes of its task
    health.py    whether a mode can do its work here, by its own word; asking.py asks that in a process of its own
    errors.py    what is told of an exception; redact.py makes it fit to be stored
    backoff.py   when to try again
    journal.py   a keeper's log lines
"""
