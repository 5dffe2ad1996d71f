# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One local cluster: create it, look into it, break parts of it, remove it.

Everything it owns on this machine is named and labelled after it and its clone, and its state lies
in .cluster/NAME: clusters of one clone or of several exist side by side, and a half-built one can
be removed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from driver import host as machine
from driver import image
from driver.layout import (
    SHARED_PATH,
    Host,
    LocalError,
    Spec,
    free_subnet,
    hosts_of,
    inventory_text,
    seed_text,
    ssh_config_text,
    ssh_options,
    unique_name,
)

ROOT = Path(__file__).resolve().parents[2]
LABEL = "trainwright.cluster"
READY_SECONDS = 60
# podman's own locks leave nothing to gain from more.
_THREADS = 2

T = TypeVar("T")
R = TypeVar("R")


def parallel(function: Callable[[T], R], items: Sequence[T], threads: int = _THREADS) -> list[R]:
    """function(item) for all items, in their order; the first exception is raised."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


class Progress:
    """Prints `[2/6] What is done ...  1.3 s` for each of `total` steps."""

    def __init__(self, total: int, quiet: bool = False) -> None:
        self.total = total
        self.done = 0
        self.quiet = quiet

    @contextmanager
    def step(self, text: str, streams: bool = False) -> Iterator[None]:
        """One step; `streams` means that it prints its own output."""
        self.done += 1
        self._write(f"[{self.done}/{self.total}] {text} ...{chr(10) if streams else ' '}")
        start = time.monotonic()
        yield
        self._write(f" {time.monotonic() - start:.1f} s\n")

    def _write(self, text: str) -> None:
        if not self.quiet:
            sys.stdout.write(text)
            sys.stdout.flush()


class Cluster:
    """A cluster by name. Its existing parts are read from its state; create() completes it."""

    def __init__(self, name: str = "local", root: Path = ROOT) -> None:
        Spec(name=name).check()
        self.name = name
        self.root = root
        self.unique = unique_name(name, root)
        self.directory = root / ".cluster" / name
        self.inventory = self.directory / "inventory"
        self.key = self.directory / "ssh" / "id_ed25519"
        self.known_hosts = self.directory / "ssh" / "known_hosts"
        self.ssh_config = self.directory / "ssh" / "config"
        # Not below the directory: a socket's path may only be 108 bytes long.
        self.control_dir = machine.RUN_DIR / "cp" / self.unique
        self._state_file = self.directory / "cluster.json"

    # --- existing clusters -------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        return self._state_file.exists()

    @property
    def spec(self) -> Spec:
        return Spec(**self._state()["spec"])

    @property
    def hosts(self) -> list[Host]:
        """The cluster's hosts, controllers first."""
        return hosts_of(self.spec, self._state()["subnet"])

    @property
    def addresses(self) -> dict[str, str]:
        """IPv4 address of each host."""
        return {host.name: host.address for host in self.hosts}

    def container(self, host: str) -> str:
        """The container's name of a host; LocalError if the cluster lacks that host."""
        if host not in self.addresses:
            known = ", ".join(self.addresses)
            raise LocalError(f"{host}: no host of cluster {self.name}; it has {known}")
        return f"{self.unique}-{host}"

    def containers(self) -> dict[str, str]:
        """State (running, exited ...) of each container that podman has, by container name."""
        return _containers(f"{LABEL}={self.unique}")

    def _state(self) -> dict[str, Any]:
        if not self.exists:
            raise LocalError(
                f"no cluster named {self.name}; make one: make cluster NAME={self.name}"
            )
        return json.loads(self._state_file.read_text(encoding="utf-8"))

    # --- making and removing -----------------------------------------------------------------

    def create(
        self,
        os: str = "debian13",
        compute: int = 2,
        gpus: int = 0,
        controllers: int = 1,
        pyxis: bool = False,
        bare: int = 0,
        database: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Containers and inventory, ready for Ansible. Made again, it starts or adds what lacks."""
        spec = Spec(self.name, os, compute, gpus, controllers, pyxis, bare, database)
        spec.check()
        progress = progress or Progress(5, quiet=True)
        machine.check_host()
        self._check_growth(spec)
        with progress.step(f"Preparing the {os} image (about 40 s when it is not there yet)"):
            recipe = image.recipe_for(os)
            image.build(recipe, self.root / ".cache" / "images")
        with progress.step("Preparing network, shared directory and keys"):
            self._prepare(spec)
            machine.allow_containers(len(_containers(LABEL)) + len(self.hosts))
        states = self.containers()
        missing = [host for host in self.hosts if self.container(host.name) not in states]
        stopped = [
            host.name
            for host in self.hosts
            if states.get(self.container(host.name), "running") != "running"
        ]
        with progress.step(f"Starting {len(missing) + len(stopped)} containers"):
            parallel(lambda host: self._run_container(host, recipe.tag), missing)
            parallel(self.start, stopped)
        with progress.step("Waiting for SSH"):
            parallel(self.wait, [host.name for host in self.hosts])
        with progress.step(f"Writing {self.inventory.relative_to(self.root)}"):
            self._write_inventory()

    def add_compute(self, count: int, progress: Progress | None = None) -> None:
        """Add `count` compute nodes and rewrite the inventory; nothing is converged."""
        now = self.spec
        if count < 1:
            raise LocalError(f"add-compute {count}: nothing to add; use 1 or more")
        if now.bare:
            raise LocalError(f"{self.name} has no compute nodes; use a cluster made without --bare")
        self.create(
            now.os,
            now.compute + count,
            now.gpus,
            now.controllers,
            now.pyxis,
            database=now.database,
            progress=progress,
        )

    def remove_compute(self) -> str:
        """Remove the last compute node, rewrite the inventory, and return the node's name."""
        now, last = self.spec, self.hosts[-1]
        if now.compute < 2:
            raise LocalError(f"{last.name} is the only compute node; use make destroy")
        self._close_connections(last.address)
        machine.podman("rm", "--force", "--time=0", self.container(last.name), check=False)
        # Another node of this name is another machine; remove_nodes.yml may have revoked the key of this one.
        for suffix in ("", ".pub"):
            (self.key.parent / f"host_{last.name}{suffix}").unlink(missing_ok=True)
        state = {**self._state(), "spec": replace(now, compute=now.compute - 1).as_dict()}
        self._state_file.write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")
        self._write_inventory()
        return last.name

    def destroy(self) -> bool:
        """Remove all that belongs to the cluster, however much of it there is; tell whether there was anything."""
        machine.check_host()
        there = self.directory.exists() or self.control_dir.exists()
        self._close_connections()
        names = list(self.containers())
        # A container whose processes are still ending can be removed by the second call.
        if names and machine.podman("rm", "--force", "--time=0", *names, check=False).returncode:
            left = list(self.containers())
            if left:
                machine.podman("rm", "--force", "--time=0", *left)
        networks = self._remove_network()
        shutil.rmtree(self.control_dir, ignore_errors=True)
        shutil.rmtree(self.directory, ignore_errors=True)
        return bool(there or names or networks)

    def _check_growth(self, spec: Spec) -> None:
        if not self.exists:
            return
        now = self.spec
        if replace(now, compute=spec.compute) != spec or spec.compute < now.compute:
            raise LocalError(
                f"cluster {self.name} stands already with OS={now.os} COMPUTE={now.compute} "
                f"GPUS={now.gpus} CONTROLLERS={now.controllers} PYXIS={int(now.pyxis)} and the database on "
                f"{'db1' if now.database else 'ctl1'}; give these values (COMPUTE may be larger), or choose another "
                f"NAME, or remove it with all its data first: make destroy NAME={self.name}"
            )

    def _prepare(self, spec: Spec) -> None:
        if not self.exists and (strays := self.containers()):
            raise LocalError(
                f"containers {', '.join(strays)} are left of another cluster {self.name}; "
                f"remove them: make destroy NAME={self.name}"
            )
        for path in (self.inventory, self.key.parent, self.directory / "seed"):
            path.mkdir(parents=True, exist_ok=True)
        self.directory.chmod(0o755)
        for name in ("home", "shared"):  # what the inventory mounts from the shared volume
            (self.directory / "shared" / name).mkdir(parents=True, exist_ok=True)
        self.control_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        subnet = self._state()["subnet"] if self.exists else self._make_network()
        self._state_file.write_text(
            json.dumps({"spec": spec.as_dict(), "subnet": subnet}, indent=2) + "\n",
            encoding="utf-8",
        )
        if not self.key.exists():
            _make_key(self.key, f"cluster {self.name}")
        lines = [f"{host.address} {self._write_seed(host)}" for host in self.hosts]
        self.known_hosts.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _make_network(self) -> str:
        """Make the cluster's network and return its subnet."""
        self._remove_network()
        with machine.locked("network"):
            subnet = free_subnet(self.unique, _taken_networks())
            label = f"--label={LABEL}={self.unique}"
            machine.podman("network", "create", f"--subnet={subnet}", label, self.unique)
        return subnet

    def _remove_network(self) -> list[str]:
        # By label: another's network may have the name.
        mine = f"--filter=label={LABEL}={self.unique}"
        found = machine.podman("network", "ls", mine, "--format={{.Name}}").stdout.split()
        for name in found:
            machine.podman("network", "rm", "--force", name)
        return found

    def _write_seed(self, host: Host) -> str:
        """Write the file that gives a container its identity; return its public host key."""
        key = self.key.parent / f"host_{host.name}"
        if not key.exists():
            _make_key(key, host.name)
        public = key.with_suffix(".pub").read_text(encoding="utf-8")
        seed = self.directory / "seed" / f"{host.name}.conf"
        seed.touch(mode=0o600)
        # Written in place: running containers hold this file as a bind mount.
        seed.write_text(
            seed_text(host, self.public_key, key.read_text(encoding="utf-8"), public),
            encoding="utf-8",
        )
        return " ".join(public.split()[:2])

    @property
    def public_key(self) -> str:
        return self.key.with_suffix(".pub").read_text(encoding="utf-8")

    def _run_container(self, host: Host, tag: str) -> None:
        machine.podman(
            "run",
            "--detach",
            f"--name={self.container(host.name)}",
            f"--hostname={host.name}",
            f"--label={LABEL}={self.unique}",
            f"--network={self.unique}:ip={host.address},mac={host.mac},alias={host.name}",
            # podman's own /etc/hosts is a mount that it rewrites at every start, with this
            # machine's names in it; a node's is an ordinary file.
            "--no-hosts",
            "--systemd=always",
            "--privileged",
            "--pids-limit=-1",
            *machine.ulimit_flags(),
            f"--volume={self.directory}/shared:{SHARED_PATH}",
            f"--volume={self.directory}/seed/{host.name}.conf:/etc/tmpfiles.d/local-cluster.conf:ro",
            tag,
            "/sbin/init",
        )

    def _write_inventory(self) -> None:
        text = inventory_text(
            self.spec,
            self.hosts,
            str(self.key),
            str(self.known_hosts),
            str(self.control_dir),
            self.public_key,
        )
        (self.inventory / "hosts.yml").write_text(text, encoding="utf-8")
        config = ssh_config_text(
            self.hosts, str(self.key), str(self.known_hosts), str(self.control_dir)
        )
        self.ssh_config.write_text(config, encoding="utf-8")
        link = self.inventory / "group_vars"
        # Bare hosts belong to no cluster: a role gets its own defaults there.
        if not link.is_symlink() and not self.spec.bare:
            link.symlink_to(Path("../../../inventories/local/group_vars"))

    # --- using it ----------------------------------------------------------------------------

    def exec(
        self,
        host: str,
        argv: Sequence[str],
        check: bool = True,
        input: str | None = None,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in a container as root, even where its sshd does not answer."""
        flags = ["--interactive"] if input is not None else []
        container = self.container(host)
        return machine.podman(
            "exec", *flags, container, *argv, check=check, input=input, timeout=timeout
        )

    def ssh_command(self, host: str, user: str = "root") -> list[str]:
        """The ssh command line to a host, without a remote command."""
        self.container(host)
        options = ssh_options(str(self.known_hosts))
        control = f"{self.control_dir}/%h-%r"
        address = self.addresses[host]
        return [
            *("ssh", "-F", "none", "-i", str(self.key), *options, "-o", f"ControlPath={control}"),
            f"{user}@{address}",
        ]

    def ssh(
        self,
        host: str,
        command: str,
        user: str = "root",
        check: bool = True,
        input: str | None = None,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell command by SSH; over a kept connection, so far cheaper than exec()."""
        argv = [*self.ssh_command(host, user), "--", command]
        return machine.run(argv, check=check, input=input, timeout=timeout)

    def wait(self, host: str) -> None:
        """Return once the host has booted and root can log in; LocalError after READY_SECONDS."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            # A refused connection costs nothing; a login that fails would be penalised.
            ready = self.ssh(host, "systemctl is-system-running --wait", check=False)
            if ready.returncode != 255:
                return
            if (state := self.containers().get(self.container(host))) != "running":
                raise LocalError(
                    f"{host} is {state or 'missing'} instead of running; look into it: "
                    f"podman logs {self.container(host)}"
                )
            time.sleep(0.1)
        raise LocalError(
            f"{host} did not answer SSH within {READY_SECONDS} s: {ready.stderr.strip()}; "
            f"look into it: python3 molecule/driver exec --name {self.name} {host} journalctl -b"
        )

    def kill(self, host: str) -> None:
        """Cut a host's power. Its connections are dropped, as they would be by a real one."""
        self._close_connections(self.addresses[host])
        machine.podman("kill", self.container(host))

    def start(self, host: str) -> None:
        """Start a stopped host and wait for SSH."""
        machine.podman("start", self.container(host))
        self.wait(host)

    def pause(self, host: str) -> None:
        """Freeze a host: it stays on the network and answers nothing."""
        machine.podman("pause", self.container(host))

    def unpause(self, host: str) -> None:
        machine.podman("unpause", self.container(host))

    def _close_connections(self, address: str = "") -> None:
        for socket in self.control_dir.glob(f"{address}*"):
            machine.run(["ssh", "-o", f"ControlPath={socket}", "-O", "exit", "-"], check=False)
            socket.unlink(missing_ok=True)


def _containers(label: str) -> dict[str, str]:
    """State of each container that carries a label, by container name."""
    listed = machine.podman("ps", "--all", f"--filter=label={label}", "--format=json").stdout
    return {entry["Names"][0]: entry["State"] for entry in json.loads(listed or "[]")}


def _make_key(path: Path, comment: str) -> None:
    machine.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", path])


def _taken_networks() -> list[str]:
    """IPv4 networks that this host routes to or that podman has given away."""
    routes = json.loads(machine.run(["ip", "-json", "-4", "route"]).stdout or "[]")
    names = machine.podman("network", "ls", "--quiet").stdout.split()
    networks = json.loads(machine.podman("network", "inspect", *names).stdout) if names else []
    subnets = [entry["subnet"] for net in networks for entry in net.get("subnets") or []]
    return [
        net
        for net in [*(route["dst"] for route in routes), *subnets]
        if net != "default" and ":" not in net
    ]
