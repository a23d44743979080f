"""The watchdog: its own process and its own fate. It notices what did not happen, and tells somebody.

cli.py        stoker-watchdog, and --once for cron
config.py     the two sections of config.toml that it needs
settings.py   [watchdog]
facts.py      what the database shows
judge.py      what of it is wrong: pure
silence.py    who has gone silent, of those that were heard of: pure
watch.py      one look: gather, judge, open and resolve incidents, page
pages.py      how somebody is told: a program, a signed webhook, PagerDuty, mail
"""
