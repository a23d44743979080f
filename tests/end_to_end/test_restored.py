"""``stoker restored``, as an operator runs it."""

from tests.end_to_end.project import Project


def test_the_command_says_what_became_of_what_was_running(project: Project) -> None:
    """Started tasks are held and can be resumed; the next fire is not in the way of the old one."""
    project.write('[modes.plain]\nhandler = "jobs:plain"\n')
    (task,) = project.enqueue("plain", 1)
    project.query("select 1")
    gone = '{"boot_id": "of another life", "host": "elsewhere", "pid": 1}'
    for statement in (
        "insert into stoker.fires (key, lane, state, day, lease_until, interlocks, owner, opened_at)"
        f" values (gen_random_uuid(), 'main', 'open', now(), now() + interval '1 d', '{{}}', '{gone}', now() - interval '2 d')",
        "insert into stoker.workers (worker, fire, mode, ordinal, owner, lease_until)"
        f" select gen_random_uuid(), fire, 'plain', 1, '{gone}', now() + interval '1 d' from stoker.fires",
        "insert into stoker.claims (token, worker, fire, mode, side_effect, max_attempts, los, his, attempts, taken, started,"
        " dead_by) select worker, worker, fire, mode, false, 3, array[lo], array[hi], '{0}', 1, true, now()"
        " from stoker.workers join stoker.ready using (mode)",
        "delete from stoker.ready",
    ):
        project.query(f"with done as ({statement} returning 1) select count(*) from done")
    doubt = project.run("doctor")
    assert doubt.returncode == 2
    assert "If this database was restored: stoker restored" in doubt.stdout
    project.query("with done as (update stoker.installation set tasks = 1 returning 1) select count(*) from done")
    for command in ("fire", "sweep", "run", "doctor"):
        refused = project.run(command)
        assert refused.returncode == 2
        assert "this schema was loaded from a dump" in refused.stdout + refused.stderr
    assert project.query("select count(*) from stoker.claims") == [(1,)]
    assert project.json("restored") == {
        "workers": 1, "fires": 1, "unstarted": 0, "held": 1, "unknown": 0, "cancelled": 0, "messages": 0,
    }  # fmt: skip
    assert project.run("restored").stdout.startswith("buried 0 worker(s), closed 0 fire(s)")
    (held,) = project.json("tasks", "ls", "--state", "held")
    assert held["id"] == task
    assert project.run("tasks", "resume", str(task)).returncode == 0
    assert project.run("fire").returncode == 0
    assert [one["verdict"] for one in project.json("tasks", "show", str(task))["attempts_ended"]] == ["held", "done"]
