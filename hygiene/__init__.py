"""Hygiene makes things true again after whatever died: before every fire, between fires, and when a fire closes.

sweep.py     one pass: lost workers, stranded fires, ghosts, what is due, partitions
release.py   who is lost, and what becomes of the tasks they held
clock.py     when leases may be judged: not after a restart, not after the clock leapt
close.py     ends a fire: fence, wait, release, and the note in the closing transaction
note.py      the facts of a note, gathered inside that transaction
outbox.py    the note's messages, one a channel, posted inside that transaction
signature.py how what is told is signed: notes and the watchdog's pages

identity.py  who a process is; never a bare pid
process.py   the one door through which processes are started
template.py  a process that others are forked from, which saves them their imports
ending.py    how a whole tree is ended; kinship.py who descends from whom
ghosts.py    processes whose owner is gone
"""
