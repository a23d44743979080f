"""What handlers say is not to be trusted: no secret leaves by a note or a log, and no word of theirs is markup."""

import json
import re
import sys
from typing import Any

import pytest
from markdown_it import MarkdownIt
from tests.end_to_end.project import Project

CONFIG = """
[limits]
max_pool = 4
task_cap = "none"
fires_per_day = "none"
[worker]
linger = "100ms"
[log]
level = "debug"
[modes.leaky]
handler = "jobs:leaky"
max_attempts = 2
backoff_base = "10ms"
errors = "{errors}"
env = ["API_TOKEN"]
[modes.leaky_program]
command = ["/bin/sh", "leaky.sh"]
max_attempts = 1
errors = "{errors}"
env = ["API_TOKEN"]
[modes.leaky_import]
handler = "leaky_import:f"
errors = "{errors}"
env = ["API_TOKEN"]
"""

TOKEN = "CanaryEnvValue"
PASSWORDS = ["password=CanaryPw1 refused", "postgresql://bob:CanaryPw2@db/x", "Authorization: Bearer CanaryPw3xxxxxxx"]
ODD = 'Canary "quoted" \\ and\nof CanaryLines two'

LEAKY = '''
def leaky(task):
    """Raises with a secret in its text, in the way the payload says."""
    match task.payload:
        case [("say" | "password" | "Bearer"), text]:
            raise ConnectionError("cannot reach " + bytes.fromhex(text).decode())
        case {"env": name}:
            raise RuntimeError("login refused for " + os.environ[name])
        case {"plain": told}:
            raise RuntimeError(f"cannot parse {told}")
        case {"repr": told}:
            raise RuntimeError(f"cannot parse {told!r}")
        case {"key": told}:
            raise KeyError(told)
        case {"whole": told}:
            try:
                raise ValueError(told)
            except ValueError as error:
                raise RuntimeError(str(task.payload)) from error
'''
SCRIPT = f"""{sys.executable} -S -c "import json, sys; print('refused: ' + json.load(sys.stdin), file=sys.stderr)"; exit 3"""
SPEAKING = 'read -r said\necho "with $API_TOKEN and password=CanaryPw1" >&2\nexit 3\n'
IMPORT = "import os\nraise RuntimeError('password=CanaryPw2 and ' + os.environ['API_TOKEN'])\n"

# Handler's payloads, what the program is, its payloads, whether the import that fails is tried.
LEAKS: dict[str, tuple[list[Any], str, list[Any], bool]] = {
    "a password in an exception": ([["say", text.encode().hex()] for text in PASSWORDS], SCRIPT, PASSWORDS[:2], False),
    "a password beside a payload that holds the word": ([["password", PASSWORDS[0].encode().hex()]], SCRIPT, [], False),
    "a value of the environment": ([{"env": "API_TOKEN"}], SPEAKING, ["x"], True),
    "a string of the payload": ([{"plain": "Canary text"}, {"key": "Canary text"}], SCRIPT, ["Canary text"], False),
    "a string of the payload, escaped": ([{"repr": ODD}, {"key": ODD}, {"whole": ODD}], SCRIPT, [], False),
    "a line of a string of the payload": ([], SCRIPT, [ODD], False),
}


def leak(project: Project, errors: str, *names: str) -> dict[str, str]:
    """Let it leak in these ways; by sink, all that was written there."""
    project.write(CONFIG.format(errors=errors), LEAKY)
    (project.folder / "leaky_import.py").write_text(IMPORT)
    for name in names:
        payloads, script, programs, imports = LEAKS[name]
        (project.folder / "leaky.sh").write_text(script)
        for mode, given in {"leaky": payloads, "leaky_program": programs, "leaky_import": [1] if imports else []}.items():
            if given:
                project.enqueue(mode, *given)
    fire = project.run("fire", API_TOKEN=TOKEN)
    assert fire.returncode == 0
    rows = {
        table: project.query(f"select t::text from stoker.{table} t") for table in ("attempts", "failed", "notes", "workers")
    }
    assert len(rows["failed"]) == sum(len(LEAKS[name][0] + LEAKS[name][2]) for name in names)
    return {
        "note": fire.stdout,
        "note json": project.run("note", "--json").stdout,
        "logs": fire.stderr,
        **{table: "\n".join(text for (text,) in texts) for table, texts in rows.items()},
        "tasks ls": project.run("tasks", "ls", "--json", "--limit", "1000").stdout,
    }


def canaries(sinks: dict[str, str]) -> dict[str, list[str]]:
    """By sink, the canaries with some words around."""
    found = {name: sorted(set(re.findall(r".{0,60}Canary.{0,30}", text)))[:4] for name, text in sinks.items()}
    return {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize("name", LEAKS)
def test_no_secret_of_a_handler_reaches_a_note_a_log_or_a_row(project: Project, name: str) -> None:
    """P9: what is redacted is redacted everywhere, whole, escaped and in part."""
    assert canaries(leak(project, "redacted", name)) == {}


def test_withheld_errors_say_nothing_at_all(project: Project) -> None:
    """P9: the kind of error stays, its words do not."""
    sinks = leak(project, "withheld", *LEAKS)
    assert canaries(sinks) == {}
    assert sinks["failed"].count("withheld by this mode") == sum(len(a) + len(b) for a, _, b, _ in LEAKS.values())


def test_errors_in_full_are_kept_in_full_but_never_logged(project: Project) -> None:
    """errors = "full" is the mode's own choice, for the rows and the note; a log line never holds an error's text."""
    sinks = leak(project, "full", *LEAKS)
    assert "Traceback (most recent call last)" in sinks["failed"]
    for canary in ["CanaryPw1", "CanaryPw2", "CanaryPw3", TOKEN, "Canary text", "CanaryLines"]:
        assert canary in sinks["attempts"]
    assert canaries({"logs": sinks["logs"]}) == {}


HOSTILE = [
    "<script>alert(1)</script>",
    "[click](javascript:alert(1))",
    "![x](https://evil.example/track.png)",
    "https://evil.example and http://evil.example",
    "a | b | c\n|---|---|\n| d | e |",
    "```\nfence\n```\n~~~\n",
    "`tick` ``ticks``",
    "\x1b[31mred\x1b]0;title\x07\x9b31m",
    "\u202egnp.exe\u2066x\u2069\u200b\u200f\ufeff",
    "@everyone @here <@1234> <!channel>",
    "x\n# heading\n\n- item\n\n> quote\n\n    code",
    "x\r\n<!-- comment\r\n&lt;&#60;b&#62;",
    "*bold* _it_ ~~s~~ **b** __u__",
    "mail root@evil.example",
    "x" * 100_000,
]

ECHO = """
import json

HOSTILE = json.loads((HERE / "hostile.json").read_text())


def labelled(task):
    return {"status": HOSTILE[task.payload]}


def raising(task):
    raise RuntimeError(HOSTILE[task.payload])


def named(task):
    kind = type("Odd", (Exception,), {})
    kind.__qualname__ = HOSTILE[task.payload]
    raise kind("x")

"""

ECHOES = """
[limits]
max_pool = 4
task_cap = "none"
fires_per_day = "none"
[worker]
linger = "100ms"
[modes.labelled]
handler = "jobs:labelled"
label = "status"
[modes.raising]
handler = "jobs:raising"
max_attempts = 1
errors = "full"
[modes.named]
handler = "jobs:named"
max_attempts = 1
"""


def echo(project: Project, mode: str) -> str:
    """The note of a fire in which ``mode`` said every hostile word, one a task."""
    project.write(ECHOES, ECHO)
    (project.folder / "hostile.json").write_text(json.dumps(HOSTILE))
    if mode == "strangers":
        names = [word[:60] for word in HOSTILE]
        lines = "\n".join(json.dumps({"mode": name, "payload": 1}) for name in names)
        assert project.run("enqueue", "--allow-unknown", "--jsonl", "-", stdin=lines).returncode == 0
    else:
        project.enqueue(mode, *range(len(HOSTILE)))
    said = project.run("fire", "--reason", " ".join(word[:100] for word in HOSTILE))
    assert said.returncode == 0, said.stderr
    return said.stdout


@pytest.mark.parametrize("mode", ["labelled", "raising", "named", "strangers"])
def test_the_note_is_inert_whatever_handlers_say(project: Project, mode: str) -> None:
    """T11: no markup, link, mention, control or direction character from a label, an error, its kind, a mode, a reason."""
    note = echo(project, mode)
    assert len(note) < 100_000
    assert not [c for c in note if c != "\n" and not c.isprintable()]
    headings = [line for line in note.splitlines() if line.startswith("#")]
    assert headings[0].startswith("# Fire 1: ")
    assert set(headings[1:]) <= {
        f"## {t}" for t in ("What needs a person", "Modes", "Failures", "Workers", "What hygiene repaired", "Plan")
    }
    tokens = [
        inner for token in MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(note) for inner in _leaves(token)
    ]
    kinds = {token.type for token in tokens}
    allowed = {"text", "code_inline", "softbreak"} | {
        f"{name}_{end}"
        for name in ("heading", "paragraph", "list_item", "bullet_list", "table", "thead", "tbody", "tr", "th", "td")
        for end in ("open", "close")
    }
    assert kinds <= allowed
    text = " ".join(token.content for token in tokens if token.type == "text")
    assert not re.search(r"://|@\w|<[a-z!@]", text)
    for table in re.findall(r"(?m)(?:^\|.*\n?)+", note):
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_a_bare_address_in_a_note_is_no_link(project: Project) -> None:
    """T11: many readers of Markdown make a link of what begins with www., so it stands in a code span as any URL does."""
    project.write(ECHOES, ECHO)
    project.run("fire", "--reason", "see www.evil.example now")
    assert "`see www.evil.example now`" in project.run("note").stdout


def _leaves(token: Any) -> list[Any]:
    return token.children if token.type == "inline" else [token]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "a\nb"])
def test_an_error_whose_kind_cannot_be_stored_is_made_fit_and_harms_nobody(project: Project, name: str) -> None:
    """P1: NUL, a lone surrogate, a newline in a class's name: the task fails as any other, and no worker is lost."""
    project.write(ECHOES, ECHO)
    (project.folder / "hostile.json").write_text(json.dumps([name]))
    ids = project.enqueue("named", 0)
    facts = project.json("fire")
    assert facts["workers"]["lost"] == []
    assert [row[0] for row in project.query("select id from stoker.failed order by id")] == ids


def test_the_kind_of_an_error_is_bounded(project: Project) -> None:
    """A class may have a name of any length; a row and a note have room for a short one."""
    echo(project, "named")
    ((longest,),) = project.query("select max(length(error_kind)) from stoker.attempts")
    assert longest <= 200


def test_what_is_shown_on_a_terminal_holds_no_control_character(project: Project) -> None:
    """T11: what was enqueued or raised cannot repaint an operator's terminal, whichever command shows it."""
    project.write(ECHOES, ECHO)
    word = "\x1b[31mred\x9b\u202e"
    (project.folder / "hostile.json").write_text(json.dumps([word]))
    (raised,) = project.enqueue("raising", 0)
    line = json.dumps({"mode": word, "payload": {word: [word]}})
    (stranger,) = project.json("enqueue", "--allow-unknown", "--jsonl", "-", stdin=line)["ids"]
    assert project.run("fire", "--reason", word).returncode == 0
    commands = ["plan", "status", "tasks ls", "fires ls", "fires show 1", "note", f"tasks show {raised}"]
    commands.append(f"tasks show {stranger}")
    shown = {command: project.run(*command.split()).stdout for command in commands}
    bad = {name: sorted({c for c in text if c != "\n" and not c.isprintable()}) for name, text in shown.items()}
    assert {name: found for name, found in bad.items() if found} == {}
