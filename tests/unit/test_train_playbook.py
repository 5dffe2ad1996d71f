# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""playbooks/train.yml with a file of a description, run unchanged on this host, up to the question for the nodes."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleLookupError
from ansible_collections.trainwright.slurm.plugins.lookup import job_file
from ansible_collections.trainwright.slurm.plugins.module_utils.training.job import file
from jinja2 import Environment

from tests.unit.test_dataset_playbooks import play

ROOT = Path(__file__).resolve().parents[2]


def described(tmp_path: Path, **more: t.Any) -> tuple[Path, Path]:
    """A file with a description that would make a mark if it was a template, and the path of the mark."""
    mark = tmp_path / "mark"
    comment = "{{ lookup('pipe', 'touch %s; echo c') }}" % mark
    job = {"name": "train", "command": "true", "launcher": "batch", "nodes": 1, "memory": "1G", "time": "60",
           "sbatch_options": {"comment": comment}}  # fmt: skip
    path = tmp_path / "job.yml"
    path.write_text(yaml.safe_dump({"train_job": job, **more}))
    return path, mark


def test_a_file_is_no_template(tmp_path: Path) -> None:
    path, mark = described(tmp_path, train_wait=False)
    rc, said = play(tmp_path, "train", {"train_job_file": str(path)})
    # Slurm's commands are not here: it has come as far as asking for the nodes.
    assert rc == 2 and "Check the jobs and write their scripts" in said and "scontrol" in said, said
    assert not mark.exists()
    # As variables of Ansible the same file is executed, which docs/training.md says.
    rc, said = play(tmp_path, "train", {}, "-e", f"@{path}")
    assert rc == 2 and mark.exists(), said


def test_one_source_of_the_description(tmp_path: Path) -> None:
    path, mark = described(tmp_path)
    job = {"name": "other", "command": "true", "launcher": "batch"}
    rc, said = play(tmp_path, "train", {"train_job_file": str(path), "train_job": job})
    assert rc == 2 and "there are both train_job_file and train_job" in said, said
    assert "Check the jobs" not in said and not mark.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train_job: {a: 1", "cannot be read as plain YAML"),
        ("[train_job]", "is not a mapping -> write train_job:"),
        ("train_jbo: {}", "train_jbo cannot come from a job file -> write train_job"),
        ("train_user: root", "train_user cannot come from a job file -> pass -e train_user=NAME"),
        ("colour: red", "a top-level key cannot come from a job file -> remove it, or write one of train_job,"),
        ("train_secrets: {A: b}", "train_secrets cannot come from a job file"),
        ("train_jobs: {}", "train_jobs: is {} -> a list"),
        ("train_wait: 'no'", "train_wait: is 'no' -> a true or false"),
        ("train_job: !!python/object/apply:os.system [id]", "cannot be read as plain YAML"),
        ("train_job: {time: 2026-01-01}", "write it in quotes"),
        ("train_job: &a {b: *a}", "it is too deep"),
        ("train_job: {a: &a [1,1,1,1,1,1,1,1,1,1], b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a], c: &c [*b,*b,*b,*b,*b,*b,*b,"
         "*b,*b,*b], d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c], e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]}", "too many values"),
        ("train_files: [/etc/passwd]", "is not a file below"),
        ("train_files: [link]", "is not a file below"),
        ("train_files: [../job.yml]", "is not a file below"),
    ],
)  # fmt: skip
def test_files_that_are_refused(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "job.yml").write_text(text)
    with pytest.raises(AnsibleLookupError) as raised:
        job_file.read(str(tmp_path / "job.yml"))
    assert said in str(raised.value) and " -> " in str(raised.value)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "recipes").glob("*/job.yml")), ids=lambda path: path.parent.name
)
def test_recipes_can_be_read(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From any directory: the files are found beside the description."""
    monkeypatch.chdir(tmp_path)
    found = job_file.read(str(path))
    given = yaml.safe_load(path.read_text())
    files = [str(path.parent / name) for name in given.pop("train_files", [])]
    assert found.pop("train_files", []) == files
    assert json.dumps(found) == json.dumps(given)


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    rc, said = play(tmp_path, "train", {"train_job_file": "nowhere.yml"})
    assert rc == 2 and "no such file; the path is from the current directory" in said, said
    assert "Check the jobs and write" not in said


def test_root_imports_nothing_that_a_description_names() -> None:
    """As root, only names of the cluster's images are copied to the nodes."""
    plays = yaml.safe_load((ROOT / "playbooks" / "train.yml").read_text())
    user = "{{ train_user | default('root', true) }}"
    owner = {"become": "{{ train_user | length > 0 }}", "become_user": user}
    module = "trainwright.slurm.enroot_image"
    given: dict[str, list[t.Any]] = {"owner": [], "root": []}
    for one in plays:
        tasks = [task for task in one["tasks"] if module in task]
        if {key: one.get(key) for key in owner} == owner:
            assert not any("become" in task or "become_user" in task for task in one["tasks"])
            given["owner"] += [task[module] for task in tasks]
        elif one["become"]:
            assert tasks == one["tasks"], "nothing else runs as root"
            given["root"] += [task[module] for task in tasks]
    name, reference = "{{ item.name }}", "{{ item.reference }}"
    assert given["root"] == [{"name": name, "store": "staged"}]
    assert given["owner"] == [{"name": name, "reference": reference, "store": "own"}]


def test_options_of_the_command_line_are_those_of_the_playbook() -> None:
    """Each option of train.yml can either come from a file, or has a remedy of its own."""
    plays = yaml.safe_load((ROOT / "playbooks" / "train.yml").read_text())
    options = next(one["vars"]["__train_options"] for one in plays if "vars" in one)
    assert set(options) == {*file.KEYS, *job_file.OPTIONS}


def test_submissions_at_the_same_moment_are_kept_apart() -> None:
    """By the lock of `train submit`; the one that was slower compares its description with the job's."""
    plays = yaml.safe_load((ROOT / "playbooks" / "train.yml").read_text())
    tasks = [task for one in plays for task in one["tasks"]]
    (submits,) = [task for task in tasks if "trainwright.slurm.slurm_job" in task]
    assert submits["trainwright.slurm.slurm_job"]["lock"] is True
    after = tasks[tasks.index(submits) + 2]
    first, again = (
        task["trainwright.slurm.train_render"]
        for task in tasks
        if "trainwright.slurm.train_render" in task
    )
    assert after["trainwright.slurm.train_render"] is again
    assert after["when"] == "__train_overtaken | length > 0"
    assert again == {**first, "again": False}
    # The slower one is refused there, before it writes anything that belongs to the job.
    (writes,) = [
        task for task in tasks if "__train.scripts" in str(task.get("ansible.builtin.copy"))
    ]
    assert tasks.index(writes) > tasks.index(after)
    assert "selectattr('1.changed')" in writes["loop"]


def test_secrets_follow_the_submission_at_once() -> None:
    """Jobs that run wait for them; a job of another submission may be another job until it has been compared."""
    plays = yaml.safe_load((ROOT / "playbooks" / "train.yml").read_text())
    tasks = [task for one in plays for task in one["tasks"]]
    order = [next((key for key in task if key.startswith("trainwright.")), "") for task in tasks]
    at = order.index("trainwright.slurm.slurm_job")
    assert order[at:][:4] == [f"trainwright.slurm.{name}" for name in (
        "slurm_job", "train_secrets", "train_render", "train_secrets")]  # fmt: skip
    own, others = tasks[at + 1], tasks[at + 3]
    options = "trainwright.slurm.train_secrets"
    assert own["when"] == "item.0.there or item.1.changed" and own[options] == others[options]
    assert "__train_overtaken" in others["loop"] and "when" not in others
    template = Environment().compile_expression
    results = [
        {"id": 1, "changed": True}, {"id": 2, "changed": False}, {"id": 3, "changed": False},
        {"id": None, "changed": True}, {"id": 5, "changed": True}, {"msg": "refused"},
        {"id": 7, "changed": True},
    ]  # fmt: skip
    jobs = [
        {"secrets": [1], "there": False}, {"secrets": [1], "there": True}, {"secrets": [1], "there": False},
        {"secrets": [1], "there": False}, {"secrets": [], "there": False}, {"secrets": [1], "there": False},
        {"secrets": [1], "there": False},
    ]  # fmt: skip
    values: dict[str, t.Any] = {
        "__train": {"jobs": jobs},
        "__train_submitted": {"results": results},
    }
    filters = Environment()
    filters.filters["zip"] = lambda *lists: list(zip(*lists, strict=True))

    def listed(expression: str) -> list[t.Any]:
        return list(filters.compile_expression(expression.strip("{} "))(**values))

    values["__train_pairs"] = listed(plays[1]["vars"]["__train_pairs"])
    values["__train_overtaken"] = listed(plays[1]["vars"]["__train_overtaken"])
    given = [one for one in listed(own["loop"]) if template(own["when"])(item=one)]
    # One that was refused takes nothing from those before and after it; the run fails after that.
    assert [one[1]["id"] for one in given] == [1, 2, 7]
    assert tasks[at]["failed_when"] is False
    (refused,) = listed(plays[1]["vars"]["__train_refused"])
    assert refused[1]["msg"] == "refused"
    names = [task["name"] for task in tasks]
    fails = names.index("Fail for the jobs that were refused")
    assert tasks[fails]["ansible.builtin.assert"]["that"] == "__train_refused | length == 0"
    assert names.index("Write the records of their runs") < fails < names.index("Watch them")
    assert [one[1]["id"] for one in listed(others["loop"])] == [3]
