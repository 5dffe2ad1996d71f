# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The NVIDIA stack on declared p5 nodes, from a repository with packages of NVIDIA's names and versions.

The packages have the files and units that the roles count on, and nothing that needs a GPU. A driver is loaded where
/proc/driver/nvidia/version says so, which a file system over the container's /proc/driver does.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from . import artifacts, efa_archive, gpu_packages
from .gpu_packages import NEW, NOW, OLD
from .site import SOAK, Nodes, Run, Site, sample
from .test_machines import P5, SMALL, efa
from .test_reboot import BOOTED, jobs

NODES = tuple(f"c{number}" for number in range(1, sample(2, 4) + 1))
#: With the NVLinks of a p5: without any, its GPUs need no Fabric Manager.
SWITCHED = {key: value for key, value in SMALL.items() if key != "nvlink_links"}
#: Containers, job hooks and health checks too; with substitutes, since the stack's mirror does not have real Enroot.
EVERYTHING = SOAK and not artifacts.REAL
#: NCCL is in none of AWS' releases, and the stand-in for EFA's installer has versions of its own.
VERSIONS = {"nccl": "2.27.3", "efa": "1.90.0"}
NEWER_EFA = "1.91.0"
PORT = 8321
NCCL_TESTS = "trainwright-nccl-tests"
KEPT = f"{NCCL_TESTS}_2.19.6+*.deb"
MEASURE = "/opt/nccl-tests/build/all_reduce_perf"
SERVER = """
import collections, http.server, sys
port, busy = map(int, sys.argv[1:])
asked = collections.Counter()

class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        key = (self.client_address[0], self.path)
        asked[key] += 1
        if self.path in ("/key.asc", "/./InRelease", "/InRelease") and asked[key] <= busy:
            self.send_error(503)
        else:
            super().do_GET()

http.server.ThreadingHTTPServer(("", port), Handler).serve_forever()
"""


@dataclass
class Stack:
    """The site, the inventory file of p5 nodes, and how they find their packages."""

    site: Site
    types: Path
    fingerprint: str
    mirror: Path
    efa_key: str

    def repository(self, **changes: Any) -> dict[str, Any]:
        url = f"http://{self.site.cluster.addresses['ctl1']}:{PORT}"
        return {
            "url": url,
            "key_url": f"{url}/key.asc",
            "key_fingerprint": self.fingerprint,
            **changes,
        }

    def play(self, *arguments: str, rc: int | None = 0, **variables: Any) -> Run:
        """Run the part of site.yml with all nodes managed, or as `gpu_stack` says."""
        word = variables.pop("gpu_stack", "managed")
        hosts = {
            host: {"slurm_node": {"cpus": 8, "machine_type": P5}, "gpu_stack": word}
            for host in NODES
        }
        self.types.write_text(yaml.safe_dump({"all": {"hosts": hosts}}))
        given = {
            "slurm_machine_types": {P5: SWITCHED},
            # Without nvidia-smi nobody can say which model a GPU is.
            "slurm_allow_incomplete": True,
            "gpu_stack_repository": self.repository(),
            "artifact_mirror": str(self.mirror),
            "artifact_cache": str(self.mirror / "cache"),
            "efa_key_fingerprint": self.efa_key,
            **variables,
        }
        given["gpu_stack_versions"] = {**VERSIONS, **variables.get("gpu_stack_versions", {})}
        tags = () if "--tags" in arguments else ("--tags", "gpu_stack,nccl_tests")
        return self.site.play("site.yml", *tags, "-i", str(self.types), *arguments, rc=rc, **given)

    def nccl_tests(self) -> dict[str, Any]:
        """Return the variables with which nccl-tests are built."""
        source = efa_archive.nccl_tests_source(self.mirror, "2.19.6")
        return {
            "gpu_stack_nccl_tests": True,
            "nccl_tests_sha256": efa_archive.sha256(source),
            "nccl_tests_cuda": "/usr/local/cuda-13.2",
        }

    def versions(self, host: str) -> dict[str, str]:
        """Return the versions of the installed packages of the repository."""
        names = "'nvidia-*' 'libnvidia-*' 'datacenter*' 'libnccl*' 'libgdr*' 'gdrdrv*' 'cuda-*'"
        form = "${db:Status-Status} ${Package} ${Version}\\n"
        listed = self.site.run(host, f"dpkg-query -W -f '{form}' {names} 2>/dev/null || true")
        rows = [line.split() for line in listed.splitlines()]
        return {row[1]: row[2] for row in rows if row[0] == "installed"}

    def serve(self, busy: int = 0) -> None:
        """Serve the repository; the first so many requests of each host for a key or an index get 503."""
        self.site.run(
            "ctl1",
            f"systemctl stop gpu-repository 2>/dev/null; cat >/srv/cluster/serve.py <<'END'\n{SERVER}END\n"
            "systemd-run -q --unit=gpu-repository --collect --working-directory=/srv/cluster/gpu-stack"
            f" python3 /srv/cluster/serve.py {PORT} {busy}",
        )


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A cluster of its own with p5 nodes, which have none of the stack at first."""
    cluster = Nodes("gpu13")
    cluster.local.destroy()
    try:
        cluster.local.create(os="debian13", compute=len(NODES), gpus=8, pyxis=EVERYTHING)
        if EVERYTHING:
            artifacts.tell(cluster.inventory)
            hooks = {"slurm_job_hooks": {"children": {"slurm_compute": {}}}}
            text = yaml.safe_dump({"slurm_cluster": {"children": hooks}})
            (cluster.inventory / "hooks.yml").write_text(text)
        site = Site(cluster)
        for host in NODES:
            efa(site, host, 32)
        site.play("site.yml")
        fingerprint = gpu_packages.repository(cluster.local.directory / "shared" / "gpu-stack")
        work = tmp_path_factory.mktemp("stack")
        if EVERYTHING:
            artifacts.make(work)
        efa_key = efa_archive.sign(efa_archive.build(work, VERSIONS["efa"]), work)
        made = Stack(site, work / "types.yml", fingerprint, work, efa_key)
        made.serve()
        yield made
    finally:
        if not os.environ.get("TRAINWRIGHT_KEEP"):
            cluster.local.destroy()


def apt_files(stack: Stack) -> dict[str, str]:
    """Return what each node has of apt's files for the repository, with times and sizes."""
    listing = "ls -l --full-time /etc/apt/*/trainwright-gpu* 2>/dev/null || true"
    return {host: stack.site.run(host, listing) for host in NODES}


def test_a_repository_whose_key_is_another_gets_nothing_installed(stack: Stack) -> None:
    wrong = "EB693B3035CD5710E231E123A4B469963BF863CC"
    done = stack.play(gpu_stack_repository=stack.repository(key_fingerprint=wrong), rc=2)
    assert f"has the keys {stack.fingerprint}, and not {wrong} alone -> find out" in done.output
    assert all(stack.versions(host) == {} for host in NODES)
    assert set(apt_files(stack).values()) == {""}


@pytest.mark.soak("two runs of four attempts each; the unit tests have them with the real apt")
def test_a_version_that_the_repository_lacks_leaves_nothing_half_installed(stack: Stack) -> None:
    done = stack.play(gpu_stack_versions={"nccl": "9.9.9"}, rc=2)
    assert "Version '9.9.9[-+.]*?' for 'libnccl2' was not found" in done.output
    assert all(stack.versions(host) == {} for host in NODES)
    done = stack.play(gpu_stack_versions={"cuda": "13.2.99"}, rc=2)
    said = " ".join(done.output.split())
    known = "cuda-toolkit-13-2: no repository of this host gives 13.2.99[-+.]*?, known: 13.2.0-1"
    assert (
        known in said
        and "-> name one that is known (for the GPU software in gpu_stack_versions)" in said
    )
    assert all(stack.versions(host) == {} for host in NODES)
    # Nobody's upgrade takes the part of the refused versions that the repository has.
    assert "Candidate: (none)" in stack.site.run("c1", "apt-cache policy nvidia-open")


@pytest.mark.soak("the unit tests of the stack's plan have the refusals")
def test_values_that_would_become_something_else_change_nothing(stack: Stack) -> None:
    """Options that leave out NCCL's plugin or end a line, no key, and an archive that nobody verifies."""
    before = apt_files(stack)
    wrong: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
        (
            {"efa_installer_options": ["--skip-plugin"], "efa_conf": {"a": "1\n2"}, "efa_key_fingerprint": ""},
            ("--skip-plugin leaves out NCCL's plugin", "efa a: '1", "efa_key_fingerprint: is empty"),
        ),
        ({"efa_signature": "never"}, ("does not have a SHA-256 to verify", "set efa_sha256")),
    )  # fmt: skip
    for given, words in wrong[: sample(1, 2)]:
        refused = stack.play(rc=2, **given)
        said = " ".join(refused.output.split())
        assert all(word in said for word in words), said
        assert refused.changed == set()
    assert all(stack.versions(host) == {} for host in NODES)
    assert apt_files(stack) == before


def test_the_stack_is_installed_in_the_versions_of_its_release(stack: Stack) -> None:
    """The repository has newer ones of most, and does not answer at first. The first node builds nccl-tests."""
    site, given = stack.site, stack.nccl_tests()
    for host in NODES:
        site.run(
            host,
            f"rm -rf /var/lib/apt/lists/*{PORT}* /var/cache/apt/*.bin /etc/apt/*/trainwright-gpu*",
        )
    checked = stack.play("--check", **given)
    assert all(stack.versions(host) == {} for host in NODES)
    assert not list((stack.mirror / "cache").glob(KEPT))
    stack.serve(busy=2)
    first = stack.play(**given)
    assert checked.changed == first.changed
    assert {host for host, _task in first.changed} == set(NODES)
    for host in NODES:
        found = stack.versions(host)
        assert found["nvidia-open"] == found["nvidia-fabricmanager"] == f"{NOW}-1"
        assert found["datacenter-gpu-manager-4-cuda13"] == "1:4.7.0-1"
        assert found["libnccl2"] == "2.27.3-1+cuda13.0"
        assert found["nvidia-container-toolkit"] == "1.20.1-1"
        assert found["cuda-toolkit-13-2"] and found["gdrdrv-dkms"]
        assert (
            site.run(host, "head -n1 /opt/amazon/efa_installed_packages").split()[-1]
            == VERSIONS["efa"]
        )
        units = "nvidia-persistenced nvidia-fabricmanager nvidia-dcgm"
        assert site.run(host, f"systemctl is-active {units}").split() == ["active"] * 3
        assert site.run(host, f"systemctl is-enabled {units}").split() == ["enabled"] * 3
        assert site.run(host, MEASURE).strip() == "# nccl-tests of NCCL 2"
        assert bool(site.run(host, "dpkg -l g++ 2>/dev/null | grep ^ii || true")) == (host == "c1")
        policy = site.run(host, "apt-get -s upgrade | grep -c ^Inst.*nvidia || true")
        assert policy.strip() == "0", "an upgrade would take what is held"
    if SOAK:
        assert stack.play("--check", **given).changed == set()
    again = stack.play(**given)
    assert again.changed == set()
    assert max(again.executions(host) for host in NODES) <= 40
    assert "nouveau" in site.run("c1", "cat /etc/modprobe.d/trainwright-nvidia.conf")


@pytest.mark.soak("the whole of site.yml with the stack, whose parts are counted above")
def test_the_whole_of_site_converges_and_changes_nothing_again(stack: Stack) -> None:
    """With everything that a compute node can have besides: containers of both kinds, job hooks and health checks."""
    given = stack.nccl_tests()
    stack.play("--tags", "all", **given)
    again = stack.play("--tags", "all", **given)
    assert again.changed == set()
    executions = {host: again.executions(host) for host in NODES}
    assert max(executions.values()) <= 40, executions


@pytest.mark.soak("the unit tests of the stack's plan have the refusal")
def test_nccl_tests_that_nobody_could_build_change_nothing(stack: Stack) -> None:
    """The host that would build is named, with the file that it lacks."""
    refused = stack.play(rc=2, **stack.nccl_tests(), nccl_tests_mpi="/opt/ours")
    assert "c1: gpu_stack_nccl_tests: this host would build nccl-tests" in refused.output
    assert "/opt/ours/include/mpi.h is neither there nor comes with" in refused.output
    assert refused.changed == set()


@pytest.mark.soak("one more run; the unit tests find what is lost with the real apt")
def test_what_was_lost_comes_back_and_dcgm_is_not_the_old_one(stack: Stack) -> None:
    """Dependencies that somebody forced away, and a package that was installed after the process had started."""
    site, before = stack.site, stack.versions("c1")
    pid = "systemctl show --value --property MainPID nvidia-dcgm"
    old = {host: site.run(host, pid) for host in NODES}
    site.run("c1", "dpkg --force-depends -r libnvidia-compute libnvidia-container1 >/dev/null")
    site.run("c1", "sleep 1; touch /var/lib/dpkg/info/datacenter-gpu-manager-4-core.list")
    done = stack.play()
    assert {host for host, _task in done.changed} == {"c1"}
    assert stack.versions("c1") == before and site.run(
        "c1", "apt-get check >/dev/null && echo whole"
    )
    assert {host for host in NODES if site.run(host, pid) != old[host]} == {"c1"}


@pytest.mark.soak("one more package by the same tasks, which a molecule scenario builds too")
def test_nccls_plugin_is_built_once_and_installed_on_all(stack: Stack) -> None:
    """Without EFA's own plugin. The first node compiles it."""
    site, package = stack.site, "trainwright-ofi-nccl"
    source = efa_archive.plugin_source(stack.mirror, "1.19.0")
    given = {
        "aws_ofi_nccl_source": "build",
        "aws_ofi_nccl_sha256": efa_archive.sha256(source),
        "aws_ofi_nccl_cuda": "",
        "efa_installer_options": ["--skip-plugin"],
    }
    refused = stack.play(rc=2, **given)
    assert (
        "/opt/amazon/efa/include/rdma/fabric.h is missing, and this host would build"
        in refused.output
    )
    for host in NODES:
        site.run(
            host, "mkdir -p /opt/amazon/efa/include/rdma; : >/opt/amazon/efa/include/rdma/fabric.h"
        )
    stack.play(**given)
    for host in NODES:
        assert site.run(host, f"dpkg-query -W -f '${{Version}}' {package}").startswith("1.19.0+")
        assert site.run(host, "test -e /opt/trainwright/ofi-nccl/lib/libnccl-net.so && echo there")
    assert len(list((stack.mirror / "cache").glob(f"{package}_*.deb"))) == 1
    assert stack.play(**given).changed == set()
    for host in NODES:
        site.run(host, f"dpkg --purge {package} >/dev/null")
    stack.play()


@pytest.mark.soak("one more package by the same tasks")
def test_a_node_that_comes_later_gets_the_kept_nccl_tests(stack: Stack) -> None:
    site, last = stack.site, NODES[-1]
    [package] = (stack.mirror / "cache").glob(KEPT)
    written = package.stat().st_mtime_ns
    site.run(last, f"dpkg -r {NCCL_TESTS} >/dev/null; ! test -e /opt/nccl-tests/build")
    joined = stack.play("--tags", "nccl_tests", "--limit", f"{last},ctl1", **stack.nccl_tests())
    assert {host for host, _task in joined.changed} == {last}
    assert site.run(last, MEASURE)
    assert package.stat().st_mtime_ns == written


@pytest.mark.soak("the unit tests have packages on hold")
def test_a_package_that_somebody_holds_is_left_alone(stack: Stack) -> None:
    """One that the named packages depend on, by real apt: at once and for a later boot."""
    site, before = stack.site, stack.versions("c1")
    site.run("c1", "apt-mark hold libnvidia-compute")
    for loaded in (False, True):
        if loaded:
            load(stack, "c1", NOW)
        refused = stack.play(gpu_stack_versions={"driver": NEW}, rc=2)
        said = " ".join(refused.output.split())
        assert f"libnvidia-compute {NOW}-1: held by somebody (apt-mark hold)" in said
        assert "apt-mark unhold libnvidia-compute on the host" in said
        assert stack.versions("c1") == before
        assert site.run("c1", "apt-mark showhold").split() == ["libnvidia-compute"]
    site.run("c1", "apt-mark unhold libnvidia-compute; umount /proc/driver")
    stack.play()
    assert all(stack.versions(host) == before for host in NODES)


@pytest.mark.soak("the unit tests kill a real dpkg")
def test_a_killed_package_manager_is_taken_up(stack: Stack) -> None:
    """As after a power failure between unpacking and configuring."""
    site = stack.site
    site.run(
        "c1",
        "cd /root && apt-get download -q gdrdrv-dkms && dpkg --unpack gdrdrv-dkms_*.deb && rm *.deb",
    )
    assert "gdrdrv-dkms" in site.run("c1", "dpkg --audit")
    assert {host for host, _task in stack.play().changed} == {"c1"}
    assert site.run("c1", "dpkg --audit") == ""


def test_a_stack_that_is_present_is_compared_and_left_alone(stack: Stack) -> None:
    site = stack.site
    site.run("c2", "dpkg --force-depends -r nvidia-fabricmanager >/dev/null")
    site.run(
        "c2",
        "DEBIAN_FRONTEND=noninteractive apt-get install -qy --allow-downgrades"
        f" -oDir::Etc::PreferencesParts=/dev/null nvidia-fabricmanager={OLD}-1 >/dev/null",
    )
    load(stack, "c2", NOW)
    before = stack.versions("c2")
    done = stack.play("--tags", "slurmctld", gpu_stack="present", rc=2)
    line = f"{OLD}-1 instead of {NOW} of NVIDIA Fabric Manager"
    assert (
        line in done.output and f"install nvidia-fabricmanager {NOW}, and hold both" in done.output
    )
    assert stack.versions("c2") == before
    assert "tw:validate:hardware" in site.run("ctl1", "scontrol show node c2")
    assert site.node_state("c1") == "idle"
    site.run("c2", "systemctl restart nvidia-fabricmanager || true; umount /proc/driver")
    assert stack.play().changed
    assert stack.versions("c2")["nvidia-fabricmanager"] == f"{NOW}-1"
    # Without the driver in use there is nothing to compare Fabric Manager with, and the node serves again.
    stack.play("--tags", "slurmctld")
    site.wait_node("c2", "idle")


def load(stack: Stack, host: str, version: str) -> None:
    """Have a driver of a version in use."""
    text = f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {version}  Release Build  (builder)"
    stack.site.run(
        host,
        "mountpoint -q /proc/driver || mount -t tmpfs tmpfs /proc/driver; mkdir -p /proc/driver/nvidia;"
        f"echo '{text}' >/proc/driver/nvidia/version",
    )


# A boot installs what waits, before slurmd, and loads what is installed.
LOADED = (
    "printf 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build\\n'"
    # systemd-run would take a ${name} for a variable of its own.
    " \"$(dpkg -s nvidia-open | sed -n 's/^Version: //p' | cut -d- -f1)\" >/proc/driver/nvidia/version"
)
# /run is empty then.
BOOT = (
    "systemctl stop slurmd trainwright-cdi; rm -rf /run/trainwright/reboot-required;"
    f" systemctl start trainwright-gpu-stack || exit 1; {LOADED};"
    f" systemctl start trainwright-cdi; {BOOTED}"
)
REBOOT = f"""#!/bin/bash
echo reboot >>/var/tmp/reboots
exec systemd-run --no-block --collect bash -c {shlex.quote("sleep 3; " + BOOT)}
"""


def efa_of(site: Site, host: str) -> str:
    """Return the version of EFA's installer that a host has."""
    return site.run(host, "head -n1 /opt/amazon/efa_installed_packages").split()[-1]


def test_another_driver_and_efa_roll_over_the_nodes_and_end_no_job(stack: Stack) -> None:
    """They are fetched, and installed by each node's reboot, although the repository is gone by then."""
    site = stack.site
    nodes = NODES
    for host in nodes:
        load(stack, host, NOW)
        site.run(
            host,
            f"rm -f /sbin/reboot; cat >/sbin/reboot <<'END'\n{REBOOT}END\nchmod 755 /sbin/reboot",
        )
    archive = efa_archive.build(stack.mirror, NEWER_EFA)
    given: dict[str, Any] = {
        "gpu_stack_versions": {"driver": NEW, "efa": NEWER_EFA},
        "efa_sha256": efa_archive.sha256(archive),
    }
    with jobs(site) as (submitted, capacity):
        if SOAK:
            planned = stack.play("--check", **given)
            assert {host for host, _task in planned.changed} >= set(nodes)
        done = " ".join(stack.play(**given).output.split())
        for host in nodes:
            driver = f"NVIDIA driver {NEW} instead of {NOW}, which is loaded"
            fabric = f"EFA {NEWER_EFA} instead of {VERSIONS['efa']}, which jobs may use"
            assert f"{host}: {driver}; {fabric} -> reboot it through the queue" in done
            reasons = site.run(host, "cat /run/trainwright/reboot-required/{gpu_stack,efa}")
            assert reasons.splitlines() == [driver, fabric]
            # An administrator, or a timer.
            upgrade = site.run(host, "apt-get -s dist-upgrade | grep -c '^Inst .*nvidia' || true")
            assert upgrade.strip() == "0", "the driver would change below jobs"
        assert stack.play(**given).changed == set()
        # As each restart of slurmd does, below the jobs.
        for host in nodes:
            site.run(host, "systemctl start trainwright-gpu-stack")
            assert stack.versions(host)["nvidia-open"] == f"{NOW}-1"
            assert efa_of(site, host) == VERSIONS["efa"]
        site.run("ctl1", "systemctl stop gpu-repository")
        site.play("reboot.yml", confirm=True, reboot_boot_check=False, reboot_timeout=180)
        assert min(capacity).nodes >= len(NODES) - 1, min(capacity)
    for host in nodes:
        found = stack.versions(host)
        assert found["nvidia-open"] == found["nvidia-fabricmanager"] == f"{NEW}-1"
        assert efa_of(site, host) == NEWER_EFA
        assert site.run(host, "ls /var/lib/trainwright/gpu_stack").split() == ["packages.installed"]
        assert site.run(host, "cat /etc/cdi/nvidia.yaml").split()[-1] == NEW
    site.wait_completed_once(submitted)
    stack.serve()
    stack.play(**given)
    if SOAK:
        assert stack.play(**given).changed == set()


def test_a_boot_whose_packages_do_not_install_keeps_slurmd_down(stack: Stack) -> None:
    """slurmd requires the unit: no job meets half a driver. The next boot tries again."""
    site = stack.site
    site.run(
        "c1", "echo no-such-package >/var/lib/trainwright/gpu_stack/packages; systemctl stop slurmd"
    )
    assert (
        site.run("c1", "systemctl start slurmd; systemctl is-active slurmd || true").strip()
        != "active"
    )
    assert "Unable to locate package no-such-package" in site.run(
        "c1", "journalctl -u trainwright-gpu-stack -n 20 --no-pager"
    )
    # A run sees it, and tries again.
    done = stack.play(
        gpu_stack_versions={"driver": NEW, "efa": NEWER_EFA},
        efa_sha256=efa_archive.sha256(stack.mirror / f"aws-efa-installer-{NEWER_EFA}.tar.gz"),
    )
    said = " ".join(done.output.split())
    assert "unit trainwright-gpu-stack failed (journalctl -u trainwright-gpu-stack)" in said
    state = site.run("c1", "systemctl is-failed trainwright-gpu-stack || true").strip()
    assert state == "inactive"
    site.run("c1", "systemctl start slurmd")
    site.wait_node("c1", "idle")


@pytest.mark.soak("another source of the driver; the unit tests run the installer of the boot")
def test_nvidias_installer_runs_at_once_or_at_a_boot_and_again_after_a_failure(
    stack: Stack,
) -> None:
    """c1 has no driver in use, and c2 has another one, whose installer fails at first."""
    site = stack.site
    given = {
        "nvidia_driver_source": "runfile",
        "nvidia_driver_runfile_sha256": gpu_packages.installer(stack.mirror, NEW),
        "gpu_stack_versions": {"driver": NEW, "efa": NEWER_EFA},
        "efa_sha256": efa_archive.sha256(stack.mirror / f"aws-efa-installer-{NEWER_EFA}.tar.gz"),
    }
    # As preflight asks for where the driver is in packages.
    names = "nvidia-open nvidia-kernel-open-dkms libnvidia-compute nvidia-persistenced"
    for host in NODES:
        site.run(host, f"apt-get purge -qy {names} >/dev/null; umount -q /proc/driver || true")
    load(stack, "c2", NOW)
    stack.play(**given)
    for host in ("c1", "c2"):
        waits = host == "c2"
        calls = site.run(host, "cat /var/tmp/nvidia-installer-calls 2>/dev/null || true").strip()
        assert calls == ("" if waits else f"{NEW} --silent --no-kernel-modules")
        kept = site.run(host, "ls /var/lib/trainwright/gpu_stack").split()
        assert (
            ("runfile" in kept) == (f"NVIDIA-Linux-{os.uname().machine}-{NEW}.run" in kept) == waits
        )
        assert "(none)" in site.run(host, "apt-cache policy nvidia-open | grep Candidate")
    assert stack.versions("c1")["nvidia-fabricmanager"] == f"{NEW}-1"
    assert site.run("c1", "systemctl is-active nvidia-persistenced").strip() == "active"

    site.run("c2", "touch /var/tmp/nvidia-installer-fails; systemctl stop slurmd")
    site.run("c2", "rm -r /run/trainwright/reboot-required")
    assert site.run("c2", "systemctl start slurmd 2>&1 || echo refused").endswith("refused")
    said = site.run("c2", "journalctl -u trainwright-gpu-stack -n 20 --no-pager")
    assert "exit 1: ERROR: Unable to build the kernel module" in said
    assert "read /var/log/nvidia-installer.log and correct that" in said
    assert site.node_state("c1") == "idle"
    # The next boot.
    load(stack, "c2", NEW)
    site.run("c2", "rm /var/tmp/nvidia-installer-fails")
    site.run("c2", "systemctl start slurmd nvidia-persistenced nvidia-fabricmanager")
    assert site.run("c2", f"grep -c '({NEW})' /var/lib/nvidia/log").strip() == "1"
    assert site.run("c2", "ls /var/lib/trainwright/gpu_stack").split() == ["packages.installed"]
    assert stack.versions("c2")["nvidia-fabricmanager"] == f"{NEW}-1"
    assert stack.play(**given).changed == set()
