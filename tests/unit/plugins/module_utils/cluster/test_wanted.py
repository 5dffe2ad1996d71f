# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The digest of what is wanted on a host: it changes with all that decides what is written there."""

from __future__ import annotations

import copy
import re
import typing as t

import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import wanted
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.cluster import ROOT, inputs

#: The first login host is always walked over.
HOSTS = ("c1", "c2")
#: Roles whose tasks run on hosts that may be left out, by the plays of site.yml.
PLAYS = yaml.safe_load((ROOT / "playbooks/site.yml").read_text(encoding="utf-8"))
#: What a role reads of the parts that are not in the digest, and why that is right.
READ_APART = {
    ("node_health", "nodes"): "the agent, on controllers",
    ("slurm_packages", "tuning"): "the digest has what it says of this host",
}


def digests(given: t.Any, variables: dict[str, t.Any] | None = None, common: t.Any = "") -> t.Any:
    variables = dict.fromkeys(HOSTS, {}) if variables is None else variables
    return wanted.wanted(given, build_model(given), common, variables)


def test_the_same_is_the_same_and_every_host_has_its_own() -> None:
    first = digests(inputs())
    assert first == digests(inputs()) and set(first) == set(HOSTS)
    assert len(set(first.values())) == len(HOSTS)


_values = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20))
_plain = st.recursive(
    _values,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(st.text(min_size=1, max_size=10), _plain, _plain)
def test_any_variable_of_one_host_changes_its_digest_and_no_other(
    name: str, before: t.Any, after: t.Any
) -> None:
    first = digests(inputs(), {**dict.fromkeys(HOSTS, {}), "c1": {name: before}})
    then = digests(inputs(), {**dict.fromkeys(HOSTS, {}), "c1": {name: after}})
    same = repr(before) == repr(after) or before == after
    assert (first["c1"] == then["c1"]) == same
    assert {**first, "c1": ""} == {**then, "c1": ""}


#: Facts of a machine, each changed; and whether another digest is wanted.
FACTS: list[tuple[str, t.Any, bool]] = [
    ("kernel", "6.13", True),
    ("arch", "aarch64", True),
    ("sudoers", {"users": ["ada"], "groups": []}, True),
    ("files", {"/etc/a": True}, True),
    ("boot_id", "other", False),
    ("clock_offset_s", 0.4, False),
    ("disks", {}, False),
]


def test_facts_of_a_host_count_and_what_varies_by_itself_does_not() -> None:
    for name, value, counts in FACTS:
        given = inputs()
        given["facts"]["c1"][name] = value
        first, then = digests(inputs()), digests(given)
        assert (first["c1"] != then["c1"]) is counts, name
        assert first["c2"] == then["c2"], name


def test_what_all_hosts_have_changes_all_digests() -> None:
    changes = [
        {"slurm_auth_type": "slurm"},
        {"slurm_spool_dir": "/var/spool/other"},
        {"cluster_users": [{"name": "ada", "uid": 2001}]},
        {"slurm_conf": {"SlurmdTimeout": 77}},
    ]
    first = digests(inputs())
    for change in changes:
        then = digests(inputs(**change))
        assert all(first[host] != then[host] for host in HOSTS), change
    assert all(first[host] != digests(inputs(), common="new")[host] for host in HOSTS)
    more = digests(inputs(compute=3))
    assert all(first[host] != more[host] for host in HOSTS)  # its name and key are on each of them


def test_what_only_one_node_is_changes_no_other_node() -> None:
    given = inputs()
    given["host_vars"]["c1"]["slurm_node"] = {"weight": 10}
    first, then = digests(inputs()), digests(given)
    assert first["c1"] != then["c1"]
    assert {**first, "c1": ""} == {**then, "c1": ""}


def test_hosts_of_which_not_all_is_recorded_are_never_left_out() -> None:
    def left(change: t.Callable[[t.Any], None]) -> set[str]:
        given = inputs()
        change(given)
        return set(digests(given))

    def group(name: str) -> t.Callable[[t.Any], None]:
        return lambda given: given["groups"].update({name: ["c1"]})

    for name in wanted.WALKED:
        if name != "slurm_controller":
            assert left(group(name)) == {"c2"}, name
    assert "c1" not in left(lambda given: given["facts"]["c1"]["os"].update(like="rhel"))
    assert "c1" not in left(lambda given: given["facts"]["c1"].update(packages_interrupted=True))
    lustre = {"path": "/fsx", "source": "fs@tcp:/x", "fstype": "lustre"}
    for setting in (
        {"node_health_nhc_conf": "* || x"},
        {"node_tuning_kernel_arguments": ["mitigations=off"]},
        {"cluster_mounts": [lustre]},
    ):
        assert not left(lambda given, one=setting: given["settings"].update(one)), setting  # type: ignore[misc]
    assert left(lambda given: given["facts"].pop("c1")) == {"c2"}
    assert set(digests(inputs(), {"c2": {}})) == {"c2"}  # of the others the variables are not known


def _roles() -> set[str]:
    """The roles of the plays from which hosts are left out."""
    found = set()
    for play in PLAYS:
        if "hosts_to_walk" not in str(play.get("hosts")):
            continue
        text = str({key: play[key] for key in ("roles", "tasks") if key in play})
        found.update(re.findall(r"trainwright\.slurm\.([a-z_]+)'", text))
    return {role for role in found if (ROOT / "roles" / role).is_dir()}


def _with_those_that_they_include() -> set[str]:
    roles, before = _roles(), set[str]()
    while roles != before:
        before = set(roles)
        for role in before:
            for file in (ROOT / "roles" / role / "tasks").glob("*.yml"):
                named = re.findall(r"name: trainwright\.slurm\.([a-z_]+)", file.read_text("utf-8"))
                roles.update(name for name in named if (ROOT / "roles" / name).is_dir())
    return roles


def test_no_role_of_these_hosts_reads_a_part_of_the_model_that_the_digest_lacks() -> None:
    roles = _with_those_that_they_include()
    assert {"slurmd", "slurm_login", "enroot", "slurm_auth", "cluster_users"} <= roles
    read = set()
    # Both act on controllers, one of them where slurmd has failed on a node.
    for role in roles - {"cluster", "slurmctld"}:
        for file in (ROOT / "roles" / role).rglob("*"):
            if file.suffix in (".yml", ".j2"):
                for name in re.findall(r"slurm_model\.([a-z_]+)", file.read_text("utf-8")):
                    read.add((role, name))
    apart = {one for one in read if one[1] in wanted.MODEL_APART}
    assert apart <= set(READ_APART), "put it into the digest, or say here why it is not needed"


def test_every_play_of_hosts_that_may_be_left_out_leaves_them_out() -> None:
    for play in PLAYS:
        hosts = str(play.get("hosts", ""))
        if play.get("name") in (
            "Prove that the cluster works",  # one task for all, which asks slurmctld
            "Look again at the hosts whose driver this run has installed",
            "Look which hosts are as they were left",
            "Refuse a Slurm that somebody else manages",
        ):
            continue
        if re.search(r"slurm_(compute|login|pyxis|cluster)\b(?!:!slurm_cluster)", hosts):
            known = "hosts_to_walk" in hosts or "slurm_build" in hosts
            others = re.sub(r"'slurm_cluster:!slurm_cluster'", "", hosts)
            served = not re.search(r"slurm_(compute|login|pyxis|cluster)\b", others)
            assert known or served, play.get("name")


def test_inputs_are_not_changed() -> None:
    given = inputs()
    before = copy.deepcopy(given)
    digests(given)
    assert given["groups"] == before["groups"] and given["facts"] == before["facts"]
