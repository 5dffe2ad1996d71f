# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The digest of what is wanted on a host: it changes with all that decides what is written there."""

from __future__ import annotations

import copy
import re
import typing as t

import pytest
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
    ("slurmd", "conf_behind"): "such a host is always walked over",
    ("slurm_login", "conf_behind"): "such a host is always walked over",
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
    # Not by ==, for which the order of keys does not count, and True is 1.
    assert (first["c1"] == then["c1"]) == (repr(before) == repr(after))
    assert {**first, "c1": ""} == {**then, "c1": ""}


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.text(max_size=5), _plain, min_size=2, max_size=4))
def test_the_order_of_keys_counts(value: dict[str, t.Any]) -> None:
    """Such as in enroot_conf and slurm_login_conf, which are written and read line by line."""
    other = dict(reversed(value.items()))
    for host in (*HOSTS, "ctl"):

        def of(given: t.Any, name: str = host) -> t.Any:
            return digests(inputs(), {**dict.fromkeys((*HOSTS, "ctl"), {}), name: {"own": given}})

        assert of(value)[host] == of(dict(value))[host] != of(other)[host]
    first, then = (digests(inputs(), common=[{"own": one}]) for one in (value, other))
    assert all(first[host] != then[host] for host in HOSTS)


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


PYXIS = {
    **{"plugstack": "pyxis", "pyxis_built_for": "24.11", "pyxis_error": ""},
    "missing_programs": [],
}


def test_hosts_of_which_not_all_is_recorded_are_never_left_out() -> None:
    def left(change: t.Callable[[t.Any], None]) -> set[str]:
        given = inputs()
        change(given)
        return set(digests(given))

    def group(name: str) -> t.Callable[[t.Any], None]:
        return lambda given: given["groups"].update({name: ["c1"]})

    for name in {*wanted.WALKED} - {*wanted.SERVED}:
        assert left(group(name)) == {"c2"}, name
    assert "c1" not in left(lambda given: given["facts"]["c1"]["os"].update(like="rhel"))
    assert "c1" not in left(lambda given: given["facts"]["c1"].update(packages_interrupted=True))
    lustre = {"path": "/fsx", "source": "fs@tcp:/x", "fstype": "lustre"}
    tools = {"path": "/scratch/tools", "owner": "alice", "recursive": True}
    scratch = {"path": "/scratch", "source": "LABEL=x", "fstype": "xfs", "directories": [tools]}
    for setting in (
        {"node_health_nhc_conf": "* || x"},
        {"node_tuning_kernel_arguments": ["mitigations=off"]},
        {"cluster_mounts": [lustre]},
        {"cluster_mounts": [scratch]},
    ):
        assert not left(lambda given, one=setting: given["settings"].update(one)), setting  # type: ignore[misc]
    assert left(lambda given: given["facts"].pop("c1")) == {"c2"}
    assert set(digests(inputs(), {"c2": {}})) == {"c2"}  # of the others the variables are not known


def with_pyxis(given: t.Any) -> None:
    given["groups"]["slurm_pyxis"] = ["c2", "c1", "login1"]
    for host in given["groups"]["slurm_pyxis"]:
        given["facts"][host]["containers"] = dict(PYXIS)


@pytest.mark.parametrize(
    "damage",
    [
        {"plugstack": ""},
        {"pyxis_built_for": ""},
        {"pyxis_error": "x"},
        {"missing_programs": ["jq"]},
    ],
)
def test_a_host_that_is_repaired_by_its_facts_alone_is_not_remembered(
    damage: dict[str, t.Any],
) -> None:
    """The facts are from before the repair, so the same damage once more would look as it was left."""
    given = inputs()
    with_pyxis(given)
    assert "c1" in digests(given)
    given["facts"]["c1"]["containers"].update(damage)
    assert "c1" not in digests(given)
    # The other compute nodes have the plugin too, which refuses containers there; and not what Enroot needs.
    given["groups"]["slurm_pyxis"].remove("c1")
    assert ("c1" in digests(given)) == ("missing_programs" in damage)


def served(given: t.Any) -> list[str]:
    return wanted.candidates_with_services(given, build_model(given))


def test_hosts_with_services_may_be_left_out_with_all_others_and_not_without() -> None:
    assert served(inputs()) == ["ctl", "login1"]
    assert set(digests(inputs(), dict.fromkeys((*HOSTS, "ctl"), {}))) == {*HOSTS, "ctl"}

    def after(change: t.Callable[[t.Any], t.Any]) -> list[str]:
        given = inputs()
        change(given)
        return served(given)

    assert not after(lambda given: given["groups"].update(slurm_build=["ctl"]))
    # A host that takes part anyway: the others may have what it needs.
    assert not after(lambda given: given["facts"]["c1"]["os"].update(like="rhel"))
    assert not after(lambda given: given["facts"]["ctl"].update(packages_interrupted=True))
    assert not after(lambda given: given["facts"].pop("ctl"))
    assert not after(lambda given: given["groups"]["slurm_cluster"].append("more"))
    assert not after(lambda given: given["settings"].update(node_health_nhc_conf="* || x"))
    for name in ("slurm_database", "slurm_nfs_server"):
        found = after(lambda given, name=name: given["groups"].update({name: ["c2"]}))  # type: ignore[misc]
        assert found == ["ctl", "c2", "login1"], name
    found = after(with_pyxis)
    assert found == ["ctl", "login1", "c2"]
    mount = {"path": "/shared", "source": "nas:/x", "fstype": "nfs"}
    for recursive in (True, False):
        tools = {"path": "/shared/tools", "owner": "alice", "recursive": recursive}
        mounts = [{**mount, "directories": [tools]}]
        found = after(lambda given, mounts=mounts: given["settings"].update(cluster_mounts=mounts))  # type: ignore[misc]
        assert bool(found) is not recursive
    for part, value in {
        "kept_out": [{"host": "c1"}],
        "gpus_to_come": ["c1"],
        "stack": {"hosts": {"ctl": {}}},
    }.items():
        model = build_model(inputs())
        model.update({part: value})  # type: ignore[typeddict-item]
        assert not wanted.candidates_with_services(inputs(), model), part


def test_after_a_first_run_the_second_one_wants_the_same_on_hosts_with_services() -> None:
    """The record is written by the first, to which every node is new."""
    second = inputs()
    second.update(record=build_model(inputs())["record"], record_digest="5e1f")
    assert second["record"]["nodes"] and not inputs()["record"].get("nodes")
    variables: dict[str, t.Any] = {"ctl": {}, "login1": {}}
    assert digests(inputs(), variables) == digests(second, variables)


def test_what_only_hosts_with_services_have_changes_their_digests() -> None:
    def of(given: t.Any, own: dict[str, t.Any] | None = None) -> t.Any:
        return digests(given, {"ctl": own or {}, "login1": {}, **dict.fromkeys(HOSTS, {})})

    first = of(inputs())
    assert first["ctl"] != of(inputs(), {"mariadb_conf": {"port": 3307}})["ctl"]
    assert first == of(inputs())
    for change in ({"slurm_rest_port": 6821}, {"slurm_auth_type": "slurm"}):
        assert first["ctl"] != of(inputs(**change))["ctl"], change
    given = inputs()
    given["host_vars"]["c1"]["slurm_node"] = {"weight": 10}
    then = of(given)
    assert first["ctl"] != then["ctl"] and first["c2"] == then["c2"]


def test_a_rest_host_is_walked_when_it_would_ask_another_port() -> None:
    """slurmrestd is restarted there, also where the host has a daemon that follows by itself."""

    def of(**changes: t.Any) -> t.Any:
        given = inputs(**changes)
        given["groups"]["slurm_rest"] = ["c2"]
        return digests(given, {"ctl": {}, "login1": {}, **dict.fromkeys(HOSTS, {})})

    port = {"slurm_ports": {**inputs()["settings"]["slurm_ports"], "slurmctld": 7817}}
    assert of()["c2"] == of()["c2"] != of(**port)["c2"]


def _roles() -> set[str]:
    """The roles of the plays from which hosts are left out that have no service of the cluster."""
    found = set()
    for play in PLAYS:
        hosts = str(play.get("hosts"))
        if "hosts_to_walk" not in hosts or re.match(
            r"\{\{ 'slurm_(controller|database|rest)' \|", hosts
        ):
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


#: Modules of others that change something in plays from which hosts with services are left out.
KNOWN_BY = {
    "community.mysql.mysql_db": "database_rights",
    "community.mysql.mysql_user": "database_rights",
}
#: Tasks of hosts that are no candidates, by their files.
OF_OTHERS = {
    "install_rhel.yml": "another system",
    "repository_debian.yml": "another install_method",
    "repository_epel.yml": "another system",
    "repository_rhel.yml": "another system",
}
ONLY_READ = ("assert", "fail", "debug", "set_fact", "import_tasks", "include_tasks", "include_role")


def _modules(tasks: t.Iterable[t.Any]) -> t.Iterator[tuple[str, t.Any]]:
    for task in tasks:
        for key in ("block", "rescue", "always"):
            yield from _modules(task.get(key, []))
        yield from ((key, task) for key in task if "." in key)


def test_roles_from_which_hosts_with_services_are_left_out_record_all_that_they_change() -> None:
    roles = set()
    for play in PLAYS:
        if re.search(r"hosts_to_walk\(.*, true\)", str(play.get("hosts"))):
            roles.update(re.findall(r"trainwright\.slurm\.([a-z_]+)'", str(play)))
    roles = {role for role in roles if (ROOT / "roles" / role).is_dir()}
    assert {"mariadb", "slurmdbd", "slurmrestd", "slurm_packages", "node_base"} <= roles
    assert not roles & {
        "slurmctld",
        "slurm_accounts",
        "enroot",
        "pyxis",
        "nfs_server",
        "slurm_login",
    }
    unknown = set()
    for role in roles:
        for file in (ROOT / "roles" / role / "tasks").glob("*.yml"):
            if file.name in OF_OTHERS:
                continue
            for name, _task in _modules(yaml.safe_load(file.read_text("utf-8")) or []):
                short = name.rpartition(".")[2]
                path = ROOT / "plugins/modules" / f"{short}.py"
                text = path.read_text("utf-8") if path.is_file() else ""
                reads = short in ONLY_READ or short.endswith(("_facts", "_info"))
                if not ("manifest.ARGUMENT" in text or name in KNOWN_BY or reads):
                    unknown.add((role, file.name, name))
    assert unknown == set()


def test_inputs_are_not_changed() -> None:
    given = inputs()
    before = copy.deepcopy(given)
    digests(given)
    assert given["groups"] == before["groups"] and given["facts"] == before["facts"]
