"""What the doctor says of what is named in config.toml: whether it can be used, and where it stands if not."""

import json

from tests.end_to_end.project import Project

LOOPS = """
[modes.quick]
handler = "jobs:quick"
[modes."shop.torn"]
# a comment
handler = "torn:run"

[[loops]]
name = "good"
handler = "jobs:digest"

[[loops]]
name = "away"
handler = "nowhere:digest"
[[loops]]
interval = "5m"
name = "greedy"
handler = "jobs:quick"
[[loops]]
name = "program"
command = ["/no/such/program"]
"""


AWAY, TORN = 'handler = "nowhere:digest"', 'handler = "torn:run"'


def test_handlers_of_modes_and_loops_are_tried_and_named_with_their_lines(project: Project) -> None:
    """A loop's takes nothing, a mode's one task."""
    project.write(LOOPS, "\ndef digest():\n    return 1\n")
    (project.folder / "torn.py").write_text("\nimport hunter_no_such_module\n")
    done = project.run("doctor", "--json")
    assert done.returncode == 2
    found = {one["check"]: (one["ok"], one["text"]) for one in json.loads(done.stdout)}
    lines = (project.folder / "config.toml").read_text().splitlines()
    at = {line: number for number, line in enumerate(lines, start=1)}
    assert found["loop good"] == (True, "jobs:digest imports and takes nothing")
    ok, text = found["loop away"]
    assert not ok
    assert text.startswith("nowhere:digest cannot be used: ModuleNotFoundError: No module named 'nowhere'. ")
    assert f"named in config.toml, line {at[AWAY]} (loops[1].handler)" in text
    ok, text = found["loop greedy"]
    assert not ok
    assert "missing a required argument: 'task'" in text
    assert f"config.toml, line {len(lines) - 3} (loops[2].handler)" in text
    assert found["loop program"] == (False, "program '/no/such/program' is not found or not executable")
    ok, text = found["mode shop.torn"]
    assert not ok
    assert "(torn.py, line 2)" in text
    assert f"config.toml, line {at[TORN]} (modes.shop.torn.handler)" in text
