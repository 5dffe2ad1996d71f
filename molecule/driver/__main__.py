# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Command line of the local cluster: python3 molecule/driver up|down|status|shell|..."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

if not __package__:  # run by its path: the package's parent takes the place of the package
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from driver.cluster import ROOT, Cluster, Progress, parallel
from driver.layout import SYSTEMS, Host, LocalError, table

PLAYBOOKS = ("site.yml", "first_job.yml")
SERVICES = "slurmctld slurmdbd mariadb slurmd slurmrestd sackd munge"
CREATE_STEPS = 5


def up(args: argparse.Namespace) -> None:
    playbooks = [] if args.no_converge else [p for p in PLAYBOOKS if _playbook(p).exists()]
    if args.pyxis and playbooks:
        check_containers(ROOT / "inventories" / "local" / "group_vars")
    cluster = Cluster(args.name)
    progress = Progress(CREATE_STEPS + len(playbooks))
    cluster.create(
        args.os,
        args.compute,
        args.gpus,
        args.controllers,
        bool(args.pyxis),
        args.bare,
        # A primary that takes the database with it leaves its backup without accounting.
        args.database == "own" or (not args.database and args.controllers == 2),
        progress=progress,
    )
    for name in playbooks:
        with progress.step(f"Running playbooks/{name}", streams=True):
            _converge(cluster, _playbook(name))
    print(overview(cluster))


def check_containers(group_vars: Path) -> None:
    """Raise LocalError where site.yml would refuse Enroot's packages: nothing says what they must be."""
    directory = os.environ.get("TRAINWRIGHT_ARTIFACTS", "")
    if directory and not Path(directory, "SHA256SUMS").is_file():
        raise LocalError(
            f"TRAINWRIGHT_ARTIFACTS={directory}: no SHA256SUMS there; use a directory with Enroot's packages, "
            "Pyxis' source and their SHA256SUMS"
        )
    texts = [path.read_text(encoding="utf-8") for path in group_vars.glob("*.yml")]
    if not directory and not any(re.search(r"^enroot_sha256:", text, re.M) for text in texts):
        raise LocalError(
            "PYXIS=1: there are no checksums of Enroot's packages; set the environment variable "
            "TRAINWRIGHT_ARTIFACTS to a directory with Enroot's packages, Pyxis' source and their SHA256SUMS, or "
            "enroot_sha256 in inventories/local/group_vars/all.yml (docs/real_servers.md)"
        )


def create(args: argparse.Namespace) -> None:
    args.no_converge = True
    up(args)


def add_compute(args: argparse.Namespace) -> None:
    cluster = Cluster(args.name)
    cluster.add_compute(args.count, Progress(CREATE_STEPS))
    print(overview(cluster))


def down(args: argparse.Namespace) -> None:
    cluster = Cluster(args.name)
    with Progress(1).step(f"Removing cluster {args.name}"):
        there = cluster.destroy()
    if not there and not args.absent_ok:
        # A name that was misspelt would leave the cluster that was meant.
        names = sorted(path.parent.name for path in cluster.directory.parent.glob("*/cluster.json"))
        others = f"those that there are: {', '.join(names)}" if names else "there is none here"
        raise LocalError(f"there is no cluster named {args.name}, so nothing was removed; {others}")


def status(args: argparse.Namespace) -> None:
    print(overview(Cluster(args.name)))


def shell(args: argparse.Namespace) -> None:
    cluster = Cluster(args.name)
    user = "root" if args.root else args.user
    # Asked first, since a login that must fail is penalised by sshd.
    if cluster.ssh(args.host, f"id {shlex.quote(user)}", check=False).returncode:
        raise LocalError(
            f"{args.host} is down or has no user {user}; see make status, make users "
            "by make cluster, or log in with --root"
        )
    command = cluster.ssh_command(args.host, user)
    os.execvp(command[0], command)


def execute(args: argparse.Namespace) -> int:
    name, command = named(args.name, args.command)
    result = Cluster(name).exec(args.host, command, check=False)
    sys.stdout.write(result.stdout)
    sys.stderr.write(result.stderr)
    return result.returncode


def named(name: str, command: list[str]) -> tuple[str, list[str]]:
    """Take --name out from between a host and its command, where argparse leaves it to the command."""
    while command:
        first, equals, value = command[0].partition("=")
        if first == "--name" and (equals or command[1:]):
            name, command = (value, command[1:]) if equals else (command[1], command[2:])
        elif command[0] == "--":
            return name, command[1:]
        else:
            break
    return name, command


def on_host(args: argparse.Namespace) -> None:
    getattr(Cluster(args.name), args.action)(args.host)


def overview(cluster: Cluster) -> str:
    """Table of nodes and services, and how to log in."""
    states = cluster.containers()

    def row(host: Host) -> list[str]:
        state = states.get(cluster.container(host.name), "missing")
        services = _services(cluster, host.name) if state == "running" else ""
        return [host.name, host.role, host.address, state, services]

    rows = parallel(row, cluster.hosts, threads=8)
    spec = cluster.spec
    name = "" if spec.name == "local" else f" NAME={spec.name}"
    login = f"make shell{name}"
    if spec.bare:
        login = f"ssh -F {cluster.ssh_config.relative_to(ROOT)} {cluster.hosts[0].name}"
    return "\n".join(
        [
            "",
            f"Cluster {spec.name} ({spec.os})",
            table([["NODE", "ROLE", "ADDRESS", "STATE", "SERVICES"], *rows]),
            "",
            f"Log in:     {login}",
            f"Remove it:  make destroy{name}",
            f"Ansible:    .venv/bin/ansible-playbook -i {cluster.inventory.relative_to(ROOT)} ...",
        ]
    )


def _services(cluster: Cluster, host: str) -> str:
    """The cluster's services on a host: names of the active ones, failed ones marked."""
    states = cluster.ssh(host, f"systemctl is-active {SERVICES}", check=False).stdout.split()
    marks = {"active": "", "failed": " (failed)", "activating": " (starting)"}
    named = zip(SERVICES.split(), states, strict=False)
    return ", ".join(service + marks[state] for service, state in named if state in marks)


def _playbook(name: str) -> Path:
    return ROOT / "playbooks" / name


def _converge(cluster: Cluster, playbook: Path) -> None:
    ansible = ROOT / ".venv" / "bin" / "ansible-playbook"
    if not ansible.exists():
        raise LocalError("no Ansible in .venv; run make dev first")
    command = [str(ansible), "-i", str(cluster.inventory), str(playbook)]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code:
        raise LocalError(
            f"playbooks/{playbook.name} failed with {code}; the cluster is left as it is. Run it "
            f"again: {' '.join(command)}"
        )


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python3 molecule/driver", description=__doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default="local", help="the cluster's name (local)")
    size = argparse.ArgumentParser(add_help=False)
    size.add_argument("--os", default="debian13", metavar="|".join(SYSTEMS))
    size.add_argument("--compute", type=int, default=2, help="compute nodes (2)")
    size.add_argument("--gpus", type=int, default=0, help="fake GPUs of each compute node (0)")
    size.add_argument("--controllers", type=int, default=1, help="1, or 2 for failover (1)")
    size.add_argument(
        "--database",
        choices=("own", "ctl1"),
        help="the host of accounting: one of its own, db1, or ctl1 (own with 2 controllers)",
    )
    size.add_argument("--pyxis", type=int, choices=(0, 1), default=0, help="1 for containers (0)")
    size.add_argument(
        "--bare", type=int, default=0, help="hosts without a cluster, instead of one (0)"
    )
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str,
        function: Callable[[argparse.Namespace], int | None],
        text: str,
        *parents: argparse.ArgumentParser,
    ) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, parents=[common, *parents])
        sub.set_defaults(function=function)
        return sub

    sub = command("up", up, "make the cluster, install Slurm, run a first job", size)
    sub.add_argument("--no-converge", action="store_true", help="containers and inventory only")
    command("create", create, "make containers and inventory only", size)
    sub = command("add-compute", add_compute, "add compute nodes to the inventory and start them")
    sub.add_argument("count", type=int)
    sub = command("down", down, "remove the cluster and all its data")
    sub.add_argument(
        "--absent-ok", action="store_true", help="end well where no cluster has the name"
    )
    command("status", status, "nodes, services, how to log in")
    sub = command("shell", shell, "log in by SSH")
    sub.add_argument("host", nargs="?", default="login1")
    sub.add_argument("--user", default="alice")
    sub.add_argument("--root", action="store_true")
    sub = command("exec", execute, "run a command in a host's container as root")
    sub.add_argument("host")
    sub.add_argument("command", nargs=argparse.REMAINDER)
    for action, text in (
        ("kill", "cut a host's power"),
        ("start", "start a stopped host"),
        ("pause", "freeze a host"),
        ("unpause", "let a frozen host go on"),
    ):
        sub = command(action, on_host, text)
        sub.set_defaults(action=action)
        sub.add_argument("host")
    return top


def main() -> int:
    args = parser().parse_args()
    try:
        return args.function(args) or 0
    except LocalError as error:
        print(f"\nerror: {error}", file=sys.stderr)
    except BrokenPipeError:  # as in `... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("\nInterrupted; `make cluster` goes on, `make destroy` cleans up.", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
