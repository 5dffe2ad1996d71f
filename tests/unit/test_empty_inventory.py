# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An inventory that failed, or has no hosts, ends every playbook with a failure, without an ansible.cfg of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
PLAYBOOKS = sorted(path.name for path in (ROOT / "playbooks").glob("*.yml"))
EMPTY = "all: {children: {slurm_cluster: {children: {slurm_controller: , slurm_compute: }}}}"
OTHERS = "all: {hosts: {other: {ansible_connection: local}}}"
FOREIGN = "all: {children: {slurm_foreign: {hosts: {head: {ansible_connection: local}}}}}"
#: It is refused at once, without a call to AWS.
WRONG = {"plugin": "trainwright.slurm.aws", "cluter": "training"}


def play(tmp_path: Path, playbook: str, *more: str) -> tuple[int, str]:
    """Run a playbook as a site does that keeps Ansible's own defaults. Returns the exit code and the output."""
    (tmp_path / "ansible.cfg").write_text("[defaults]\nnocows = true\n", encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if "ANSIBLE" not in name}
    done = subprocess.run(
        [str(ANSIBLE), "-i", str(tmp_path / "inventory"), str(ROOT / "playbooks" / playbook), *more],
        cwd=tmp_path,
        env={
            **environment,
            "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_NOCOLOR": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_the_first_play_of_each_playbook_looks_at_the_inventory() -> None:
    """All of them have the same first play, so two of them are run here."""
    for name in PLAYBOOKS:
        plays = yaml.safe_load((ROOT / "playbooks" / name).read_text(encoding="utf-8"))
        if name == "site.yml":
            assert (
                plays[0]["tasks"][0]["ansible.builtin.include_tasks"] == "tasks/refuse_foreign.yml"
            )
            assert plays[1]["ansible.builtin.import_playbook"] == "preflight.yml"
            continue
        if name == "node_bootstrap.yml":
            assert plays[0]["ansible.builtin.import_playbook"] == "containers.yml"
            continue
        (task, *_rest) = plays[0]["tasks"]
        if name == "join.yml":  # of the machine that it runs on, without an inventory
            assert task["ansible.builtin.assert"]["that"] == "join_model is defined"
            continue
        if name in ("containers.yml", "job_hooks.yml"):
            assert plays[0]["hosts"] == "localhost"
            assert "aws_inventory_failure is not defined" in task["ansible.builtin.assert"]["that"]
            continue
        assert "or not groups['all'] else" in plays[0]["hosts"], name
        assert task["ansible.builtin.include_tasks"] == "tasks/map_groups.yml", name
        assert "aws_inventory_failure is defined" in task["when"], name


@pytest.mark.parametrize(
    ("playbook", "sources", "said"),
    [
        ("site.yml", {}, "no such group in this inventory, which has 0 hosts"),
        ("site.yml", {"hosts.yml": EMPTY}, "it has no hosts -> check with ansible-inventory"),
        ("preflight.yml", {"aws.yml": yaml.safe_dump(WRONG)}, "inventory: cluter: is not an option"),
        ("support_bundle.yml", {"aws.yml": yaml.safe_dump(WRONG), "hosts.yml": OTHERS},
         "inventory: cluter: is not an option -> write cluster"),
        # Its remedy was site.yml, one run away from a second Slurm.
        ("health.yml", {"hosts.yml": FOREIGN}, "site.yml, which is not for a Slurm that somebody else manages"),
    ],
)  # fmt: skip
def test_it_fails_and_says_why(
    tmp_path: Path, playbook: str, sources: dict[str, str], said: str
) -> None:
    (tmp_path / "inventory").mkdir()
    for name, text in sources.items():
        (tmp_path / "inventory" / name).write_text(text, encoding="utf-8")
    code, output = play(tmp_path, playbook)
    assert code == 2, output
    assert said in output and "UNREACHABLE" not in output


CLUSTER = (
    "all: {children: {slurm_cluster: {children: {slurm_controller: {hosts: {ctl: }},"
    " slurm_compute: {hosts: {c1: }}, slurm_node_health: {hosts: {c1: }}}}}, hosts: {other: }}"
)


@pytest.mark.parametrize(
    "playbook", ["health.yml", "drift.yml", "drain.yml", "resume.yml", "validate.yml"]
)
def test_a_limit_that_leaves_out_the_host_of_the_play_fails(tmp_path: Path, playbook: str) -> None:
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "hosts.yml").write_text(CLUSTER, encoding="utf-8")
    code, output = play(tmp_path, playbook, "--limit", "other", "-e", "nodes=c1", "-e", "reason=x")
    assert code != 0 and "--limit other" in output and " -> " in output, output


def test_data_sets_are_sent_without_a_cluster(tmp_path: Path) -> None:
    """Up to the refusal of its own input."""
    (tmp_path / "inventory").mkdir()
    code, output = play(tmp_path, "dataset.yml")
    assert code == 2 and "slurm_cluster" not in output and "dataset_source" in output


@pytest.mark.parametrize("name", ["aws", "bare_metal"])
def test_the_inventories_to_copy_fail_as_a_whole(name: str) -> None:
    """Where Ansible is started beside them."""
    text = (ROOT / "inventories" / name / "ansible.cfg").read_text(encoding="utf-8")
    assert "[inventory]\n" in text and "any_unparsed_is_failed = true\n" in text


@pytest.mark.parametrize(
    "playbook",
    [
        "accounts.yml",
        "drain.yml",
        "quarantine.yml",
        "remove_nodes.yml",
        "results.yml",
        "resume.yml",
    ],
)
def test_a_limit_without_the_host_that_does_the_work_is_an_error(
    playbook: str, tmp_path: Path
) -> None:
    """Ansible itself would say that no host matched, and end with success."""
    hosts = {
        "slurm_controller": {"hosts": {"ctl1": None}},
        "slurm_compute": {"hosts": {"c1": None}},
    }
    tree = {"all": {"children": {"slurm_cluster": {"children": hosts}}}}
    (tmp_path / "inventory").write_text(yaml.safe_dump(tree), encoding="utf-8")
    status, output = play(tmp_path, playbook, "--limit", "c1")
    assert status and "--limit c1 leaves out ctl1, which " in output
    assert play(tmp_path, playbook, "--limit", "ctl1", "--list-hosts")[0] == 0


@pytest.mark.parametrize("playbook", ["drain.yml", "remove_nodes.yml"])
def test_a_time_to_wait_that_is_no_number_is_refused(playbook: str, tmp_path: Path) -> None:
    """It would count as 0 seconds, and the nodes go while their jobs run."""
    local = {"ansible_connection": "local", "ansible_become": False}
    hosts = {"slurm_controller": {"hosts": {"ctl1": local}}}
    tree = {"all": {"children": {"slurm_cluster": {"children": hosts}}}}
    (tmp_path / "inventory").write_text(yaml.safe_dump(tree), encoding="utf-8")
    given = ["nodes=c1", "reason=test", "confirm=yes", "drain_timeout=abc"]
    status, output = play(tmp_path, playbook, *(word for one in given for word in ("-e", one)))
    assert status == 2 and "drain_timeout" in output and "int" in output


@pytest.mark.parametrize("playbook", ["drain.yml", "reboot.yml"])
def test_a_reason_of_which_only_the_first_word_would_count_is_refused(
    playbook: str, tmp_path: Path
) -> None:
    _two_hosts(tmp_path)
    status, output = play(tmp_path, playbook, "-e", "nodes=c1", "-e", "reason=rack 4: broken")
    assert status == 2 and "-e: 4: broken: Ansible takes each word" in output, output
    # In quotes of its own it is taken: the run ends later, without a Slurm.
    whole = ["-e", "nodes=c1", "-e", "reason='rack 4: broken'"]
    status, output = play(tmp_path, playbook, *whole)
    task = {"drain.yml": "Drain the nodes", "reboot.yml": "Be the only run that reboots hosts"}
    assert "Ansible takes each word" not in output and f"TASK [{task[playbook]}]" in output, output


def _two_hosts(tmp_path: Path) -> None:
    local = {"ansible_connection": "local", "ansible_become": False}
    hosts = {
        "slurm_controller": {"hosts": {"ctl1": local}},
        "slurm_compute": {"hosts": {"c1": local}},
    }
    tree = {"all": {"children": {"slurm_cluster": {"children": hosts}}}}
    (tmp_path / "inventory").write_text(yaml.safe_dump(tree), encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "runs"),
    [
        # The copies would be those of the image of before.
        (["container_image_reference=docker://a/b", "container_image_stage=true"], False),
        (["container_image_state=absent", "container_image_stage=true"], False),
        ([], False),
        (["container_image_stage=true"], True),
    ],
    ids=str,
)
def test_a_limit_to_nodes_does_not_leave_out_the_import(
    more: list[str], runs: bool, tmp_path: Path
) -> None:
    _two_hosts(tmp_path)
    given = [word for one in ["container_image_name=x", *more] for word in ("-e", one)]
    status, output = play(tmp_path, "container_image.yml", "--limit", "c1", "--list-hosts", *given)
    assert (status == 0) == runs, output
    assert ("--limit c1 leaves out ctl1, which has the images -> " in output) != runs
    both = play(tmp_path, "container_image.yml", "--limit", "ctl1,c1", "--list-hosts", *given)
    assert both[0] == 0, both[1]


def test_a_limit_leaves_out_the_control_node_that_sends_data(tmp_path: Path) -> None:
    _two_hosts(tmp_path)
    given = ["-e", "dataset_source=/a", "-e", "dataset_destination=/b", "--list-hosts"]
    status, output = play(tmp_path, "dataset.yml", "--limit", "c1", *given)
    assert status and "--limit c1 leaves out localhost, which sends the data -> " in output
    assert play(tmp_path, "dataset.yml", "--limit", "c1", "-e", "dataset_host=c1", *given)[0] == 0
    assert play(tmp_path, "dataset.yml", *given)[0] == 0


@pytest.mark.parametrize("playbook", ["job_hooks.yml", "quarantine.yml"])
def test_a_limit_to_the_controller_does_not_pass_the_refusals(
    playbook: str, tmp_path: Path
) -> None:
    """A limit leaves out localhost, on which the first play runs."""
    _two_hosts(tmp_path)
    status, output = play(
        tmp_path, playbook, "--limit", "ctl1", "-e", "nodes=c1", "-e", "quarantine_users=ann",
        "-e", "ansible_become=false",
    )  # fmt: skip
    group = "slurm_foreign" if playbook == "job_hooks.yml" else "slurm_node_health"
    assert status == 2 and f"the group {group} does not have a host" in output, output
