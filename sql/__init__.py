"""The floor: everything that touches PostgreSQL. Imports no other room.

states.py      the states of tasks and fires, and every legal move; imports nothing
migrations/    the schema, forward only; migrate.py applies them
queries/       one statement a file, loaded by name; query.py puts the schema in
target.py      where the database is; database.py speaks to it, with bounded retries
grants.py      what a role gets that runs everything and owns nothing
payload.py     JSON at the door; enqueue.py puts tasks in; bulk.py what COPY is sent, and ids as ranges
table_source.py  rows of another queue's table as tasks; enclosed.py whether a condition stays one
partitions.py  the partitions of the tables that grow
embedded/      the PostgreSQL that a newcomer needs not install
units.py       durations and sizes; section.py what a section of config.toml is; settings.py the sections [database] and [queue]
"""
