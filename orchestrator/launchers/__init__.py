"""What starts workers. A launcher starts, lists and ends; leases, fences and verdicts stay in the database.

local.py    processes of this machine
"""
