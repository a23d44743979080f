"""The audit example as "make demo" runs it: the Makefile's own commands, on a copy of the example and a small folder."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.end_to_end.project import COMMAND, Project

ROOT = Path(__file__).parents[2]


class Demo:
    """A copy of the example, a folder to audit, and the test's database in place of the embedded one."""

    def __init__(self, project: Project, place: Path) -> None:
        self.project = project
        self.audit, self.folder = place / "audit", place / "a folder"
        shutil.copytree(ROOT / "examples" / "audit", self.audit, ignore=shutil.ignore_patterns(".stoker", "__pycache__"))
        self.folder.mkdir()
        for name in ("one.py", "two.py", "three.txt"):
            (self.folder / name).write_text(f"text = '{name}'\n")

    def run(self) -> str:
        """The demo's commands, one after the other, each of which must succeed; what they printed."""
        said = ""
        for line in self._commands():
            done = subprocess.run(
                ["/bin/sh", "-c", line],
                cwd=self.audit.parent,
                env=self.project.environment(DATABASE_URL=self.project.url),
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, f"{line}\n{done.stderr}"
            said += done.stdout
        return said

    def _commands(self) -> list[str]:
        recipe = (ROOT / "Makefile").read_text().partition("\ndemo:")[2].partition("\n\n")[0]
        lines = [line.strip().lstrip("@") for line in recipe.splitlines()[1:]]
        assert len(lines) > 5
        variables = {
            "$(STOKER)": f"{shlex.join(COMMAND)} --config {shlex.quote(str(self.audit))}/config.toml",
            "$(BIN)/python": shlex.quote(sys.executable),
            "$(AUDIT)": str(self.audit),
            "$(FOLDER)": str(self.folder),
        }
        for name, value in variables.items():
            lines = [line.replace(name, value) for line in lines]
        assert not [line for line in lines if "$(" in line]
        return lines

    def tally(self) -> dict[str, int]:
        """What the last note counted by status."""
        facts = json.loads(self.project.query("select facts::text from stoker.notes order by fire desc limit 1")[0][0])
        (mode,) = [mode for mode in facts["modes"] if mode["mode"] == "fixity"]
        found: dict[str, int] = mode["tally"]
        return found

    def failed(self) -> list[str]:
        """The files that the last fire could not compile."""
        rows = self.project.query(
            "select payload->>'path' from stoker.failed join stoker.tasks using (id) where mode = 'syntax'"
            " and fire = (select max(fire) from stoker.fires) order by 1"
        )
        return [Path(path).name for (path,) in rows]


@pytest.fixture
def demo(project: Project, tmp_path: Path) -> Demo:
    return Demo(project, tmp_path)


BROKEN = ["missing_colon.py", "mixed_indent.py", "unclosed_bracket.py"]


def test_the_demo_run_twice_says_that_nothing_changed_and_then_what_did(demo: Demo) -> None:
    """All new, all the same, then one changed, one gone, one new; the files shipped broken fail in every run."""
    said = demo.run()
    assert demo.tally() == {"new": 3}
    assert "- fixity: 3 new" in said
    assert "new: 3 files in all" in said.splitlines()
    assert demo.failed() == BROKEN
    assert said.count("SyntaxError") + said.count("TabError") + said.count("IndentationError") >= 1

    assert "Nothing changed in 3 files." in demo.run().splitlines()
    assert demo.tally() == {"same": 3}
    assert demo.failed() == BROKEN

    (demo.folder / "one.py").write_text("text = 'another'\n")
    (demo.folder / "two.py").unlink()
    (demo.folder / "four.py").write_text("def broken(:\n")
    said = demo.run()
    assert demo.tally() == {"same": 1, "changed": 1, "gone": 1, "new": 1}
    assert "- fixity: 1 changed, 1 gone, 1 new, 1 same" in said
    changed = [f"changed: {demo.folder}/one.py", f"gone: {demo.folder}/two.py", f"new: {demo.folder}/four.py"]
    assert [line for line in said.splitlines() if str(demo.folder) in line] == changed
    assert demo.failed() == sorted([*BROKEN, "four.py"])

    assert "changed:" not in demo.run()
    assert demo.tally() == {"same": 3}
    assert demo.project.query("select count(*) from stoker.notes") == [(4,)]


def test_what_a_demo_s_failure_says_names_the_line_and_not_the_text(demo: Demo) -> None:
    """P9: a syntax error's place is shown; the source line, which is somebody's file, is not."""
    said = demo.run()
    (group,) = [line for line in said.splitlines() if line.startswith("- syntax: SyntaxError")]
    assert ", line " in group
    assert "(3 failed)" in group or "(2 failed)" in group or "(1 failed)" in group


def test_a_folder_that_is_not_there_enqueues_nothing(demo: Demo) -> None:
    demo.run()
    demo.folder.rename(demo.folder.with_name("moved"))
    with pytest.raises(AssertionError, match="no folder"):
        demo.run()
    assert demo.project.query("select count(*) from stoker.tasks") == [(3 + 2 + len(BROKEN),)]
