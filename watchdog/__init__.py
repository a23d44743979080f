"""The watchdog: its own process and its own fate. It notices what did not happen, and tells somebody.

cli.py            stoker-watchdog, and --once for cron; cli_incidents.py and cli_drill.py its commands
opened.py         what commands begin with; config.py the two sections of config.toml that they need
settings.py       [watchdog]

watch.py          one look: gather, judge, open and resolve incidents, page
facts.py          what the database shows
judge.py          what of it is wrong: pure
silence.py        who has gone silent, of those that were heard of: pure
blindness.py      the one incident that the database cannot keep: that it cannot be asked
kept.py           the file that keeps it, and the memory where there is no such file

incidents.py      the list of them, and who has taken what
pages.py          what is told of one at one time
delivery.py       who is to be told is written first, then each channel sends on its own
drill.py          a slot that is withheld on purpose
channels.py       a program, a signed webhook, PagerDuty, mail, Apprise
switch.py         the dead man's switch elsewhere
"""
