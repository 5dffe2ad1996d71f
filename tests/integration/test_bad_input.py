"""Bad input against a live cluster: refused by host and variable, with its remedy, and nothing changed.

Each case is one run of site.yml. Input is made bad as people do it: a wrong variable, a wrong inventory,
or a host on which something is not as it must be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import Converged
from .site import Run, Site, tail

pytestmark = pytest.mark.systems("debian12")

# Plays that change nothing; no other one may begin.
PREFLIGHT_PLAYS = {"Find the cluster's groups", "Read the nodes and refuse bad input"}
LINE = re.compile(r"(?P<host>\S.*?): (?P<variable>.+?): (?P<what>.+) -> (?P<remedy>.+)")
# What must not change on a node: files with their times, and who runs since when.
FINGERPRINT = """
cd /
{ find etc usr/local usr/lib/os-release var/spool/cron var/lib/trainwright root home -xdev \
    '(' -type f -o -type l ')' -printf '%p %m %U:%G %s %T@ %l\\n'
  find etc var/lib/trainwright -xdev -type f -print0 | xargs -0 sha256sum
  stat -c '%n %s %Y' var/lib/dpkg/status var/lib/mysql/slurm_acct_db/*.frm
  systemctl show -p Id,MainPID,ActiveEnterTimestampMonotonic \
    slurmctld slurmdbd slurmd slurmrestd munge mariadb ssh
  grep -v /run/user/ proc/mounts
} 2>&1 | sort
"""


class Inventory:
    """A copy of the cluster's inventory, to be made wrong."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.hosts: dict[str, dict[str, Any]] = data["all"]["hosts"]
        self.top: dict[str, Any] = data["all"]["children"]
        self.groups: dict[str, Any] = self.top["slurm_cluster"]["children"]

    def add(self, group: str, *hosts: str) -> None:
        """Put hosts into a group, after those that are in it."""
        self.groups.setdefault(group, {}).setdefault("hosts", {}).update(dict.fromkeys(hosts))

    def take_out(self, group: str) -> None:
        """Put a group beside slurm_cluster, and its hosts out of the one that would keep them in it."""
        del self.groups["slurm_pyxis"]
        self.top[group] = self.groups.pop(group)

    def rename_group(self, old: str, new: str) -> None:
        self.groups[new] = self.groups.pop(old)

    def rename_host(self, old: str, new: str) -> None:
        self.hosts[new] = self.hosts.pop(old)
        for group in self.groups.values():
            group["hosts"] = {new if host == old else host: None for host in group["hosts"]}


@dataclass(frozen=True)
class Case:
    """One kind of bad input. what and remedy are regular expressions for their part of the line."""

    id: str
    host: str
    variable: str
    what: str
    remedy: str
    variables: dict[str, Any] = field(default_factory=dict)
    host_variables: dict[str, dict[str, Any]] = field(default_factory=dict)
    inventory: Callable[[Inventory], object] | None = None
    arguments: tuple[str, ...] = ()
    fault: Callable[[Site], AbstractContextManager[object]] | None = None


# --- faults on hosts ----------------------------------------------------------------------------


@contextmanager
def edited(site: Site, host: str, path: str, *expressions: str) -> Iterator[None]:
    """A file of a host changed by sed; put back with its times."""
    copy = "/run/bad-input.saved"
    script = " ".join(f"-e '{expression}'" for expression in expressions)
    site.run(host, f"cp -a {path} {copy}")
    try:
        site.run(host, f"sed -i {script} {path}")
        yield
    finally:
        site.run(host, f"cp -a {copy} {path} && rm {copy}")


def extra_user(site: Site, host: str, name: str, uid: int) -> AbstractContextManager[None]:
    """A local user whom nobody declared."""
    return edited(site, host, "/etc/passwd", f"$ a {name}:x:{uid}:100::/nonexistent:/bin/sh")


def other_system(site: Site, host: str, system: str, version: str) -> AbstractContextManager[None]:
    """A host with another operating system, as far as it says."""
    values = {"ID": system, "VERSION_ID": version, "PRETTY_NAME": f"{system} {version}"}
    expressions = [f's/^{key}=.*/{key}="{value}"/' for key, value in values.items()]
    return edited(site, host, "/usr/lib/os-release", *expressions)


@contextmanager
def foreign_listener(site: Site, host: str, port: int) -> Iterator[None]:
    """Another program on a port."""
    unit = "bad-input-listener"
    site.run(host, f"systemd-run --quiet --unit={unit} python3 -m http.server {port}")
    try:
        site.run(
            host,
            f"timeout 20 sh -c 'until ss -Hltn sport = :{port} | grep -q .; do sleep 0.1; done'",
        )
        yield
    finally:
        site.run(host, f"systemctl stop {unit}", check=False)


@contextmanager
def no_way(site: Site, host: str, target: str) -> Iterator[None]:
    """A host that cannot send to another, as behind a firewall. Ansible's own way stays."""
    route = f"blackhole {site.cluster.addresses[target]}/32"
    site.run(host, f"ip route add {route}")
    try:
        yield
    finally:
        site.run(host, f"ip route del {route}")


@contextmanager
def clock_ahead(site: Site, host: str, seconds: int) -> Iterator[None]:
    """A Python on the host that sees another time; the clock itself is the one of all containers."""
    patch = f"import time\nnow = time.time\ntime.time = lambda: now() + {seconds}\n"
    site.run(
        host,
        "mkdir -p /run/ahead && cd /run/ahead && "
        f"printf '{patch.encode('unicode_escape').decode()}' > sitecustomize.py && "
        "printf '#!/bin/sh\\nPYTHONPATH=/run/ahead exec /usr/bin/python3 \"$@\"\\n' > python3 && "
        "chmod 755 python3",
    )
    try:
        yield
    finally:
        site.run(host, "rm -rf /run/ahead")


# --- the cases ----------------------------------------------------------------------------------

BATCH = {"name": "batch", "groups": ["slurm_compute"], "default": True}
DORA = {"name": "dora", "uid": 2050}
DATA = {"path": "/data", "source": "nas:/data", "fstype": "nfs4"}


def partitions(*more: dict[str, Any], **batch: Any) -> dict[str, Any]:
    """Variables with the partition batch, changed, and more partitions."""
    return {"slurm_partitions": [{**BATCH, **batch}, *more]}


CASES = [
    # the inventory
    Case("no-group-slurm-cluster", "inventory", "group slurm_cluster", "no such group", "put the cluster's hosts",
         inventory=lambda inv: inv.top.update(cluster=inv.top.pop("slurm_cluster"))),
    Case("no-controller", "inventory", "group slurm_controller", "is empty", "put one host",
         inventory=lambda inv: inv.groups.pop("slurm_controller")),
    Case("three-controllers", "inventory", "group slurm_controller", r"has 3 hosts \(ctl1, login1, c1\)", "keep two",
         inventory=lambda inv: inv.add("slurm_controller", "login1", "c1")),
    Case("backup-controller-without-shared-state", "cluster", "slurm_state_save_location", "backup would lose all jobs",
         "under a path of cluster_mounts", {"slurm_state_save_location": "/var/spool/slurmctld"},
         inventory=lambda inv: inv.add("slurm_controller", "login1")),
    Case("two-databases", "inventory", "group slurm_database", r"has 2 hosts \(ctl1, login1\)", "keep one",
         inventory=lambda inv: inv.add("slurm_database", "login1")),
    Case("misspelt-group", "inventory", "group slurm-computes", "is not a group of", "rename it to slurm_compute",
         inventory=lambda inv: inv.rename_group("slurm_compute", "slurm-computes")),
    Case("group-outside-the-cluster", "login1", "group slurm_login", "not in slurm_cluster", "make slurm_login a child",
         inventory=lambda inv: inv.take_out("slurm_login")),
    Case("limit-without-controller", "inventory", "--limit", "leaves out the controller ctl1",
         "--limit 'c1,slurm_controller'", arguments=("--limit", "c1")),
    # names and addresses
    Case("host-name-for-no-dns", "gpu_2", "slurm_node.name", "'gpu_2' has letters other than", "rename the host",
         inventory=lambda inv: inv.rename_host("c2", "gpu_2")),
    Case("same-node-name", "c1, c2", "slurm_node.name", "share the node name c1", "a name of its own",
         host_variables={"c2": {"slurm_node": {"name": "c1"}}}),
    Case("same-address", "c1, c2", "slurm_node.address", r"share the address 10\.\S+", "correct ansible_host",
         inventory=lambda inv: inv.hosts["c2"].update(inv.hosts["c1"])),
    Case("loopback-address", "c2", "slurm_node.address", "only the host itself can reach 127.0.0.1",
         "address that other nodes use", host_variables={"c2": {"slurm_node": {"address": "127.0.0.1"}}}),
    # types and spelling
    Case("wrong-type", "cluster", "slurm_conf", r"is \['KillWait=60'\]", "write a mapping",
         {"slurm_conf": ["KillWait=60"]}),
    Case("unknown-choice", "cluster", "slurm_install_method", "'distro'", "one of distribution, repository, source",
         {"slurm_install_method": "distro"}),
    Case("misspelt-variable", "cluster", "slurm_partition", "is not a variable of", "write slurm_partitions",
         {"slurm_partition": [BATCH]}),
    Case("misspelt-key", "cluster", "slurm_partitions[batch]", "unknown key node; did you mean nodes?", "use name, ",
         partitions(node="c1")),
    Case("variable-of-another-role", "cluster", "node_base_log_days", "'many'", "write a whole number",
         {"node_base_log_days": "many"}),
    # Slurm's options and names
    Case("unknown-slurm-option", "cluster", "slurm_conf.KilWait", "did you mean KillWait", "correct or remove",
         {"slurm_conf": {"KilWait": 60}}),
    Case("option-with-a-variable", "cluster", "slurm_conf.SlurmctldPort", "set by this collection", "use slurm_ports",
         {"slurm_conf": {"SlurmctldPort": 7000}}),
    Case("option-of-two-lines", "cluster", "slurm_conf.KillWait", "does not fit on one line", "without # and line",
         {"slurm_conf": {"KillWait": "60\nDebugFlags=all"}}),
    Case("cluster-name", "cluster", "slurm_cluster_name", "is 'My Cluster'", "lower case letters",
         {"slurm_cluster_name": "My Cluster"}),
    Case("account-name", "cluster", "slurm_accounts", "account 'My Lab'", "write my_lab",
         {"slurm_accounts": [{"name": "My Lab", "users": ["alice"]}]}),
    # partitions
    Case("partition-with-unknown-node", "cluster", "slurm_partitions[batch].nodes", r"no compute node c\[3-4\]",
         r"name nodes of c\[1-2\]", partitions(nodes="c[1-4]")),
    Case("partition-with-bad-host-list", "cluster", "slurm_partitions[batch].nodes", "cannot be read", r"c\[1-4,7\]",
         partitions(nodes="c[1-")),
    Case("partition-with-unknown-group", "cluster", "slurm_partitions[batch].groups",
         "does not have the group slurm_compte; did you mean slurm_compute", "name a group",
         partitions(groups=["slurm_compte"])),
    Case("partition-option", "cluster", "slurm_partitions[batch].options", "MaxTimes is not an option", "correct or",
         partitions(options={"MaxTimes": 60})),
    Case("two-default-partitions", "cluster", "slurm_partitions", "batch, debug are each the default", "true in one",
         partitions({**BATCH, "name": "debug"})),
    # ports and paths
    Case("no-port", "cluster", "slurm_rest_port", "70000 is not a valid port", "from 1024 to 65535",
         {"slurm_rest_port": 70000}),
    Case("port-twice", "cluster", "slurm_rest_port", "6817 is also slurm_ports.slurmctld", "its own port",
         {"slurm_rest_port": 6817}),
    Case("port-in-srun-range", "cluster", "slurm_srun_port_range", "contains 6817, which is slurm_ports.sl", "move one",
         {"slurm_srun_port_range": "6800-7999"}),
    Case("relative-path", "cluster", "slurm_spool_dir", "'spool' is not an absolute path", "begins with /",
         {"slurm_spool_dir": "spool"}),
    Case("shared-spool", "cluster", "slurm_spool_dir", "would overwrite each other's jobs", "each node's own disk",
         {"slurm_spool_dir": "/shared/spool"}),
    # what a live cluster cannot change
    Case("state-moved", "ctl1", "slurm_state_save_location", "StateSaveLocation=/var/spool/slurmctld; .* lose its jobs",
         "write /var/spool/slurmctld again", {"slurm_state_save_location": "/var/spool/elsewhere"}),
    Case("cluster-renamed", "ctl1", "slurm_cluster_name", "ClusterName=local", "write local again",
         {"slurm_cluster_name": "renamed"}),
    # where Slurm comes from
    Case("repository-without-url", "cluster", "slurm_repository.url", "is empty", "name the repository",
         {"slurm_install_method": "repository", "slurm_version": "24.11.5"}),
    Case("slurm-too-old-for-option", "cluster", "slurm_auth_type", "needs Slurm 23.11, and this cluster runs 22.05",
         "write slurm_auth_type: munge", {"slurm_auth_type": "slurm"}),
    # users and storage
    Case("uid-twice", "cluster", "cluster_users[ezra].uid", "2050 is also the uid of dora", "its own",
         {"cluster_users": [DORA, {"name": "ezra", "uid": 2050}]}),
    Case("reserved-user", "cluster", "cluster_users[slurm]", "is a system user", "another name",
         {"cluster_users": [{"name": "slurm", "uid": 2050}]}),
    Case("mount-without-source", "cluster", "cluster_mounts[/data]", "lacks source", "add source",
         {"cluster_mounts": [{"path": "/data"}]}),
    Case("mount-twice", "cluster", "cluster_mounts[/data/]", "is listed twice", "keep one mount for each path",
         {"cluster_mounts": [DATA, {**DATA, "path": "/data/"}]}),
    Case("database-without-password", "cluster", "mariadb_external.password", "is empty", "write host, port",
         {"mariadb_external": {"host": "db1"}}),
    # nodes against their machines
    Case("cpus-that-do-not-multiply", "c2", "slurm_node.cpus", "but sockets x cores x threads are 4", "write cpus: 4",
         host_variables={"c2": {"slurm_node": {
             "cpus": 8, "sockets": 1, "cores_per_socket": 2, "threads_per_core": 2}}}),
    Case("more-memory-than-there-is", "c2", "slurm_node.memory_mb", "is 99999999, and the machine has", "write less",
         host_variables={"c2": {"slurm_node": {"memory_mb": 99999999}}}),
    Case("gpu-files-that-are-not-there", "c2", "slurm_node.gres[0].file", r"/dev/nvidia\[8-15\] does not exist",
         "install the driver",
         host_variables={"c2": {"slurm_node": {"gres": [{"name": "gpu", "file": "/dev/nvidia[0-15]"}]}}}),
    Case("too-little-memory", "c[1-2],ctl1,login1", "slurm_min_memory_mb", "MB of memory, less than 9999999",
         "add memory to the host", {"slurm_min_memory_mb": 9999999}),
    Case("too-little-disk", "ctl1", "slurm_state_save_location", "MB free at /var/spool/slurmctld, less than 99999999",
         "free some space", {"slurm_min_disk_mb": 99999999}),
    # faults on hosts
    Case("controller-away", "ctl1", "ansible_host", "did not answer, and it is in slurm_controller", "start the host",
         host_variables={"ctl1": {"ansible_port": 1, "ansible_control_path": "none"}}),
    Case("amazon-linux-2", "c2", "operating system", "Amazon Linux 2 is not supported", "reinstall .*debian 13",
         fault=partial(other_system, host="c2", system="amzn", version="2")),
    Case("user-with-another-uid", "c2", "cluster_users[dora].uid", "dora has the uid 5000", "usermod -u 2050 dora",
         {"cluster_users": [DORA]}, fault=partial(extra_user, host="c2", name="dora", uid=5000)),
    Case("uid-of-somebody-else", "c1", "cluster_users[dora].uid", "2050 of dora belongs to zoe on this host",
         "choose another uid for dora", {"cluster_users": [DORA]},
         fault=partial(extra_user, host="c1", name="zoe", uid=2050)),
    Case("munge-with-another-uid", "c2", "user munge", r"64031 on c1,ctl1,login1; 1234 on c2|1234 on c2; 64031 on",
         "usermod -u 64031 munge",
         fault=lambda site: edited(site, "c2", "/etc/passwd", "s/^munge:x:[0-9]*:/munge:x:1234:/")),
    Case("port-taken", "c2", "slurm_ports.slurmd", "python3 listens on port 7818", "stop it .*7818",
         {"slurm_ports": {"slurmctld": 6817, "slurmd": 7818, "slurmdbd": 6819}},
         fault=partial(foreign_listener, host="c2", port=7818)),
    Case("firewall", "c1", "TCP port 6817", r"no connection to 10\.\S+:6817 \(filtered", "allow TCP port 6817 to",
         fault=partial(no_way, host="c1", target="ctl1")),
    Case("clock", "c2", "clock", r"is (39\d|40\d) s ahead of the control node's", "set the time",
         host_variables={"c2": {"ansible_python_interpreter": "/run/ahead/python3"}},
         fault=partial(clock_ahead, host="c2", seconds=400)),
    Case("broken-record", "ctl1", "/var/lib/trainwright/record.json", "is not valid JSON", "restore it from a backup",
         fault=lambda site: edited(site, "ctl1", "/var/lib/trainwright/record.json", "1 s/^/x/")),
]  # fmt: skip


# --- the test -----------------------------------------------------------------------------------


def fingerprints(site: Site) -> dict[str, str]:
    """What must not change, by host."""
    hosts = site.cluster.hosts
    with ThreadPoolExecutor(len(hosts)) as pool:
        return dict(
            zip(hosts, pool.map(lambda host: site.run(host, FINGERPRINT), hosts), strict=True)
        )


def difference(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """The lines of the fingerprints that differ, each with its host."""
    return [
        f"{host}: {line}"
        for host in before
        for line in sorted(set(before[host].splitlines()) ^ set(after[host].splitlines()))
    ]


@pytest.fixture(scope="module")
def untouched(site: Converged) -> Iterator[dict[str, str]]:
    """The nodes before the first case; after the last one they must be the same."""
    before = fingerprints(site)
    yield before
    assert difference(before, fingerprints(site)) == []


def wrong_inventory(case: Case, site: Site, directory: Path) -> Path:
    """The inventory of a case: the cluster's own, or a copy made wrong."""
    if not (case.host_variables or case.inventory):
        return site.inventory
    inventory = Inventory(yaml.safe_load((site.inventory / "hosts.yml").read_text()))
    for host, variables in case.host_variables.items():
        inventory.hosts[host].update(variables)
    if case.inventory:
        case.inventory(inventory)
    (directory / "hosts.yml").write_text(yaml.safe_dump(inventory.data, sort_keys=False))
    (directory / "group_vars").symlink_to((site.inventory / "group_vars").resolve())
    return directory


def problems_said(run: Run) -> list[str]:
    """The lines of the messages of all failed tasks."""
    failures = re.findall(r"^fatal: \[.+?\]: FAILED! => (\{.*\})$", run.output, re.MULTILINE)
    return [line for failure in failures for line in json.loads(failure)["msg"].splitlines()]


def play(case: Case, site: Site, directory: Path) -> Run:
    """The run of site.yml with the bad input of a case."""
    inventory = wrong_inventory(case, site, directory)
    return site.play("site.yml", *case.arguments, inventory=inventory, rc=None, **case.variables)


@pytest.fixture(scope="module")
def runs(
    site: Converged,
    untouched: dict[str, str],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Future[Run]]]:
    """The runs of the chosen cases that damage no host, two at a time: none of them changes anything."""
    chosen = [
        item.callspec.params["case"]
        for item in request.session.items
        if getattr(item, "originalname", "") == "test_bad_input_is_refused"
    ]
    with ThreadPoolExecutor(2) as pool:
        yield {
            case.id: pool.submit(play, case, site, tmp_path_factory.mktemp(case.id))
            for case in chosen
            if not case.fault
        }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_bad_input_is_refused(
    case: Case,
    site: Converged,
    untouched: dict[str, str],
    runs: dict[str, Future[Run]],
    tmp_path: Path,
) -> None:
    if case.fault:
        wait(runs.values())
        with case.fault(site):
            before = fingerprints(site)
            run = play(case, site, tmp_path)
            after = fingerprints(site)
    else:
        run = runs[case.id].result()
        before, after = untouched, fingerprints(site)
    assert run.rc not in (0, 250), tail(run.output, 40)
    said = problems_said(run)
    lines = [match for match in map(LINE.fullmatch, said) if match]
    matching = [
        line
        for line in lines
        if (line["host"], line["variable"]) == (case.host, case.variable)
        and re.search(case.what, line["what"])
        and re.search(case.remedy, line["remedy"])
    ]
    assert matching, "\n".join(said) or tail(run.output, 40)
    # People read the terminal: the line stands there as it is, and not once for every host.
    shown = re.sub(
        r"^\[ERROR\]: (Task failed: |Action failed: )*", "", run.output, flags=re.MULTILINE
    )
    assert shown.splitlines().count(matching[0][0]) == 1, tail(run.output, 40)
    assert run.changed == set()
    assert set(re.findall(r"^PLAY \[(.*?)\]", run.output, re.MULTILINE)) <= PREFLIGHT_PLAYS
    assert difference(before, after) == []


def test_kinds_are_many() -> None:
    """Each case is another kind, by its name and by what is said."""
    assert len({case.id for case in CASES}) == len(CASES) >= 32
    assert len({(case.variable, case.what) for case in CASES}) == len(CASES)
