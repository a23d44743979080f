"""Virtual time on a real server: every statement is the shipped one, only what it calls ``now()`` is another.

- ``clock``: a schema with a ``now()`` and a ``clock_timestamp()`` of its own, which sessions find first, and who sets it;
- ``almanac``: what is to happen in a stretch of time: schedules, edits, pauses, outages, and the misses that are planted; pure;
- ``world``: lets it happen, and keeps who was told what, and when.
"""
