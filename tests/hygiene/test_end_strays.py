"""Ending strays: what descends from nobody who is kept, and nothing else, however fast the kept ones fork."""

import subprocess
import sys
from pathlib import Path

COUNT = """
import subprocess, sys
from stoker.hygiene.process import become_subreaper, end_strays, spawn
become_subreaper()
forking = "n=0; while [ $n -lt 60 ]; do sleep 0.03 || echo $? >> lost; n=$((n+1)); done"
kept = spawn(["/bin/sh", "-c", forking], env={"PATH": "/usr/bin:/bin"}, die_with_parent=True)
while kept.poll() is None:
    end_strays([kept.pid])
subprocess.Popen(["/bin/sh", "-c", "sleep 60 & exit 0"]).wait()
print(end_strays([]))
"""


def test_what_a_kept_process_starts_meanwhile_is_no_stray(tmp_path: Path) -> None:
    """P6, R09: a worker that leaves never takes a program that another has just started; an orphan is still ended."""
    done = subprocess.run([sys.executable, "-P", "-c", COUNT], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert not (tmp_path / "lost").exists()
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
