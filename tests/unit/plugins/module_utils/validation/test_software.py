# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Versions, files and links of the GPU and EFA software: on a node, in an image, against what is expected of them."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.checks.result import Result, Verdict
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    catalogue,
    own,
    plan,
    versions,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.catalogue import Check
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.course import Course
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers import registry
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.parsers.error import (
    ParseError,
)

from . import stand_in
from .parsers.recorded import FIXTURES
from .stand_in import ROOT, Said, asked, drive

NAMES = ["c1", "c2", "c3"]
PROGRAMS = {"nvidia-smi": "/x", "dcgmi": "/x", "fi_info": "/x"}
CHECKS = {check.name: check for check in catalogue.load(stand_in.given())}
DRIVER = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.91.07  Release Build  (dvs-builder)\n"
    "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
)
MANIFEST = (
    "# EFA installer version: 1.50.0\n# Debug packages installed: no\n# Packages installed:\n"
    "ibacm_64.0-1_amd64 libfabric1-aws_2.6.0amzn1.0_amd64 libnccl-ofi_1.21.1-1_amd64 rdma-core_64.0-1_amd64\n"
)
#: As /usr/local/cuda/version.json has it.
CUDA = {
    "cuda": {"name": "CUDA SDK", "version": "13.2.0"},
    "cuda_cccl": {"name": "CUDA C++ Core Compute Libraries", "version": "3.2.1"},
}
FI_INFO = "/opt/amazon/efa/bin/fi_info: 2.6.0amzn1.0\nlibfabric: 2.6.0amzn1.0\nlibfabric api: 2.6\n"
LDCONFIG = (
    "1200 libs found in cache `/etc/ld.so.cache'\n"
    "\tlibnccl.so.2 (libc6,x86-64) => {root}/usr/lib/x86_64-linux-gnu/libnccl.so.2\n"
)
NODE = (
    "driver 595.91.07\ncuda 13.2.0\nnccl 2.27.3\nefa 1.50.0\nefa_driver 3.3.0\n"
    "libfabric 2.6.0amzn1.0\nofi_nccl 1.21.1\n"
)


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node with the GPU and EFA software: its files, and programs that print what the real ones do."""
    for path, text in {
        "proc/driver/nvidia/version": DRIVER,
        "usr/local/cuda/version.json": json.dumps(CUDA, indent=3),
        "usr/lib/x86_64-linux-gnu/libnccl.so.2.27.3": "",
        "sys/module/efa/version": "3.3.0\n",
        "opt/amazon/efa_installed_packages": MANIFEST,
        "opt/amazon/efa/lib/libfabric.so.1": "",
        "opt/amazon/openmpi/bin/mpirun": "",
        "opt/amazon/ofi-nccl/lib/x86_64-linux-gnu/libnccl-net-ofi.so": "\0Initializing aws-ofi-nccl 1.21.1\0",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    (tmp_path / "usr/lib/x86_64-linux-gnu/libnccl.so.2").symlink_to("libnccl.so.2.27.3")
    program(tmp_path / "opt/amazon/efa/bin/fi_info", FI_INFO)
    program(tmp_path / "bin/ldconfig", LDCONFIG.format(root=tmp_path))
    return tmp_path


def program(path: Path, prints: str, code: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"#!/bin/sh\ncat << '@@'\n{prints.rstrip()}\n@@\nexit {code}\n", encoding="utf-8"
    )
    path.chmod(0o755)


def said(root: Path, command: str, **environment: str) -> tuple[int, str]:
    """Run the command of a check as a node or a container below root would; return its exit code and output."""
    places = ("/proc/driver", "/usr/local/cuda", "/opt/amazon", "/opt/aws-ofi-nccl", "/sys/module")

    def below(text: str) -> str:
        for place in places:
            text = text.replace(place, f"{root}{place}")
        return text

    text = (ROOT / "roles/validate/files/versions.sh").read_text(encoding="utf-8")
    (root / "versions.sh").write_text(below(text), encoding="utf-8")
    done = subprocess.run(
        ["bash", "-c", below(command)],
        env={"PATH": f"{root}/bin:/usr/bin:/bin", "VALIDATION": str(root), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


# -- what versions.sh prints --------------------------------------------------------------------------
def test_the_versions_of_a_node(node: Path) -> None:
    assert said(node, CHECKS["stack"].command) == (0, NODE + "end\n")
    for name, version in (
        ("cuda", "13.2.0"), ("nccl", "2.27.3"), ("efa_installer", "1.50.0"), ("efa_driver", "3.3.0"),
        ("ofi_nccl_version", "1.21.1"),
    ):  # fmt: skip
        assert said(node, CHECKS[name].command) == (0, version + "\n")


def test_a_node_without_the_software_says_so(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin/ldconfig", "0 libs found in cache")
    assert said(tmp_path, CHECKS["stack"].command) == (0, "end\n")
    for name in ("cuda", "nccl", "efa_installer", "efa_driver", "ofi_nccl_version"):
        assert said(tmp_path, CHECKS[name].command) == (0, "none\n")
    with pytest.raises(ParseError, match="no driver of NVIDIA is loaded there -> see lsmod"):
        versions.of_node("end\n")


def test_cuda_by_the_link_and_the_plugin_by_its_text(node: Path) -> None:
    (node / "usr/local/cuda/version.json").unlink()
    (node / "usr/local/cuda").rmdir()
    (node / "usr/local/cuda-12.4").mkdir()
    (node / "usr/local/cuda").symlink_to("cuda-12.4")
    (node / "opt/amazon/efa_installed_packages").write_text("# EFA installer version: 1.34.0\n")
    assert said(node, CHECKS["cuda"].command) == (0, "12.4\n")
    assert said(node, CHECKS["ofi_nccl_version"].command) == (0, "1.21.1\n")
    plugin = next((node / "opt/amazon/ofi-nccl").rglob("*.so"))
    plugin.write_text("stripped")
    assert said(node, CHECKS["ofi_nccl_version"].command) == (0, "unknown\n")


def test_the_versions_of_an_image(node: Path) -> None:
    """PyTorch loads its own CUDA and NCCL, whatever the image has besides; other images have variables."""
    command = CHECKS["container_versions"].command
    image = {"CUDA_VERSION": "12.9.1", "NCCL_VERSION": "v2.27.5", "AWS_OFI_NCCL_VERSION": "1.19.0"}
    program(node / "bin/python3", "")
    code, text = said(node, command, **image)
    found = versions.of_image(text)
    assert code == 0 and found.stack["cuda"] == "13.2.0" and not found.faults
    (node / "bin/python3").write_text(
        "#!/bin/sh\ncase $2 in *nccl.version*) echo 2.26.2 ;; *torch.version.cuda*) echo 12.6 ;; esac\n"
    )
    (node / "usr/local/cuda/compat").mkdir()
    (node / "usr/local/cuda/compat/libcuda.so.580.95.05").write_text("")
    found = versions.of_image(said(node, command, **image)[1])
    assert (found.stack["cuda"], found.stack["nccl"]) == ("12.6", "2.26.2")
    assert found.stack["cuda_compat"] == "580.95.05"
    for path in ("opt/amazon/efa_installed_packages", "usr/local/cuda/version.json"):
        (node / path).unlink()
    program(node / "bin/python3", "")
    program(node / "bin/ldconfig", "")
    found = versions.of_image(said(node, command, **image)[1])
    assert (found.stack["cuda"], found.stack["nccl"]) == ("12.9.1", "2.27.5")
    assert found.stack["ofi_nccl"] == "1.19.0" and "efa" not in found.stack


def test_the_host_and_pytorch_have_a_nccl_each() -> None:
    """Captured on that machine: libnccl2 beside PyTorch 2.11 with CUDA 13."""
    host = versions.of_node("driver 580.159.04\ncuda 13.0\nnccl 2.28.3\nend\n")
    text = "driver 580.159.04\ncuda 13.0\nnccl 2.28.9\ncuda_compat 580.95.05\nend\n"
    image = versions.of_image(text)
    assert (host.stack["nccl"], image.stack["nccl"]) == ("2.28.3", "2.28.9")
    assert not host.faults and not image.faults and not image.gaps


# -- what fits ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("", ""), ""),
        (("595.91.07", "570.86.15"), "NVIDIA's kernel module 570.86.15, wanted >= 580 (CUDA 13.2.0 on this machine"),
        (("2.6.0amzn1.0", "2.4.0"), "libfabric 2.4.0, wanted 2.6.0 (EFA installer 1.50.0 brings it"),
        (("ofi_nccl 1.21.1", "ofi_nccl 1.15.0"), "AWS OFI NCCL plugin 1.15.0, wanted 1.21.1"),
        (("ofi_nccl 1.21.1", "ofi_nccl unknown"), ""),
    ],
)  # fmt: skip
def test_what_does_not_fit_on_a_node_is_a_fault(change: tuple[str, str], words: str) -> None:
    found = versions.of_node(NODE.replace(*change) + "end\n")
    assert not words and not found.faults or words in found.faults[0] and " -> " in found.faults[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("driver 595.91.07\ncuda 12.9\nnccl 2.27.3\n", ""),
        ("driver 520.61\ncuda 12.9\nnccl 2.27.3\n", "wanted >= 525.60.13 (CUDA 12.9 in the image"),
        ("driver 520.61\ncuda 12.9\nnccl 2.27.3\ncuda_compat 575.57.08\n", ""),
        ("driver 595.91.07\nefa_driver 3.3.0\nnccl 2.27.3\n", "without it NCCL uses TCP instead of EFA"),
        ("driver 595.91.07\nefa_driver 3.3.0\nnccl 2.27.3\nofi_nccl unknown\nlibfabric 2.6.0\n", ""),
    ],
)  # fmt: skip
def test_what_in_an_image_does_not_fit_its_node_is_a_fault(text: str, words: str) -> None:
    found = versions.of_image(text + "end\n")
    assert (words in found.faults[0]) if words else not found.faults


@pytest.mark.parametrize(
    "text",
    ["", "driver 595.91.07\n", "driver 595.91.07 x\nend\n", "cuda 13\ncuda 12\nend\n", "cuda ../x\nend\n"],
)  # fmt: skip
def test_a_damaged_output_is_refused(text: str) -> None:
    for read in versions.PARSERS.values():
        with pytest.raises(ParseError):
            read(text)


# -- in a course --------------------------------------------------------------------------------------
def run(
    names: t.Sequence[str],
    fault: t.Callable[[Check, tuple[str, ...]], Said | None],
    programs: t.Mapping[str, str] = PROGRAMS,
    site: plan.Site | None = None,
    **declared: t.Any,
) -> dict[tuple[str, str], Result]:
    """Run some checks on three nodes that declare these things; return the results by host and check."""
    checks = tuple(CHECKS[name] for name in names)
    stages = [stage for stage in catalogue.STAGES if stage in {one.stage for one in checks}]
    what = asked(NAMES, stages, checks=checks, site=site or plan.Site(dcgm_level=2))
    hosts = tuple(
        dataclasses.replace(host, declared={**host.declared, "gpus": 8, "efa": 16, **declared})
        for host in what.hosts
    )

    def of_checks(check: Check, nodes: tuple[str, ...]) -> Said | None:
        return None if check.name == "probe" else fault(check, nodes)

    course: Course = drive(dataclasses.replace(what, hosts=hosts), of_checks, programs)[0]
    return {(one.host, one.check): one for one in course.results}


def test_a_version_is_judged_by_what_the_inventory_names() -> None:
    text = {"c1": "2.6.0amzn1.0", "c2": "2.7.0", "c3": "2.4.0"}
    named = {"libfabric": ("2.6.0", "release dlami-2026-10: AWS")}
    found = run(["libfabric"], lambda check, nodes: (text[nodes[0]], 0), versions=named)
    assert [found[name, "libfabric"].verdict for name in NAMES] == [
        Verdict.PASS, Verdict.WARN, Verdict.FAIL,
    ]  # fmt: skip
    bad = found["c3", "libfabric"]
    assert (bad.value, bad.threshold) == ("2.4.0", "2.6.0") and "dlami" in bad.provenance
    # Without a name, the nodes are compared with each other.
    found = run(["libfabric"], lambda check, nodes: ("2.4.0" if nodes == ("c2",) else "2.6.0", 0))
    assert [found[name, "libfabric"].verdict for name in NAMES] == [
        Verdict.PASS, Verdict.FAIL, Verdict.PASS,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("none", Verdict.FAIL), ("unknown", Verdict.WARN), ("1.21.1", Verdict.PASS)],
)
def test_a_part_that_is_named_and_not_there_fails(version: str, verdict: Verdict) -> None:
    named = {"ofi_nccl": ("1.21.1", "EFA installer 1.50.0 brings it")}
    found = run(["ofi_nccl_version"], lambda check, nodes: (version, 0), versions=named)
    assert found["c1", "ofi_nccl_version"].verdict is verdict


def test_a_node_whose_parts_do_not_fit_fails_with_the_remedy() -> None:
    def fault(check: Check, nodes: tuple[str, ...]) -> Said | None:
        return NODE.replace(
            "595.91.07", "570.86.15" if nodes == ("c2",) else "595.91.07"
        ) + "end", 0

    found = run(["stack"], fault)
    bad = found["c2", "stack.fault"]
    assert bad.verdict is Verdict.FAIL and bad.remedy.startswith("install driver 580 or newer")
    assert found["c1", "stack"].verdict is Verdict.PASS and ("c1", "stack.fault") not in found


def test_an_old_copy_of_an_image_on_one_node_is_named() -> None:
    def fault(check: Check, nodes: tuple[str, ...]) -> Said | None:
        nccl = "2.23.4" if nodes == ("c3",) else "2.27.3"
        return f"pyxis: importing\ndriver 595.91.07\ncuda 12.9\nnccl {nccl}\nend", 0

    site = plan.Site(pyxis=frozenset(NAMES), image="/i.sqsh")
    found = run(["container_versions", "container_ngc_versions"], fault, site=site, efa=0)
    bad = found["c3", "container_versions"]
    assert bad.verdict is Verdict.FAIL and "nccl 2.23.4" in str(bad.value)
    assert bad.threshold == "driver 595.91.07, cuda 12.9, nccl 2.27.3"
    assert found["c1", "container_versions"].verdict is Verdict.PASS
    assert found["cluster", "container_ngc_versions"].detail == "validate_ngc_image is empty"


# -- links and files ----------------------------------------------------------------------------------
def test_the_links_between_the_gpus_of_a_node_are_those_of_its_type() -> None:
    full = (FIXTURES / "topo-h100.txt").read_text(encoding="utf-8")

    def fault(check: Check, nodes: tuple[str, ...]) -> Said | None:
        return full.replace("NV18", "NV17") if nodes == ("c2",) else full, 0

    found = run(["gpu_links"], fault, nvlink=18)
    assert found["c1", "gpu_links"].verdict is Verdict.PASS and found["c1", "gpu_links"].value == 18
    bad = found["c2", "gpu_links"]
    assert (bad.verdict, bad.value, bad.threshold) == (Verdict.WARN, 17, 18)
    assert run(["gpu_links"], fault)["cluster", "gpu_links"].detail == "no node declares NVLink"


def test_the_topology_of_a_node_is_one_line_that_differs_where_a_card_is_elsewhere(
    tmp_path: Path,
) -> None:
    text = (FIXTURES / "topo-a100.txt").read_text(encoding="utf-8")
    lines = []
    for changed in (text, f"\x1b[4m{text}\x1b[0m", text.replace("0-23", "24-47")):
        program(tmp_path / "bin/nvidia-smi", changed)
        code, line = said(tmp_path, CHECKS["gpu_topology"].command)
        assert code == 0, line
        lines.append(line)
    assert lines[0] == lines[1] != lines[2] and lines[0].count("\n") == 1, lines
    assert lines[0].startswith("56 NV12 sum "), lines
    program(tmp_path / "bin/nvidia-smi", "NVIDIA-SMI has failed", 9)
    code, line = said(tmp_path, CHECKS["gpu_topology"].command)
    assert code == 1 and "NVIDIA-SMI has failed" in line


#: Captured on a machine with one H200, driver 580.159.04.
ONE_H200 = (
    "\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \t0-15\t0\t\tN/A\n\nLegend:\n\n  X    = Self\n"
)


def test_the_topology_of_a_node_with_one_gpu_does_not_have_links(tmp_path: Path) -> None:
    found = registry.read("nvidia_topo", ONE_H200)
    assert found.figures == {"gpus": 1.0, "nics": 0.0}
    program(tmp_path / "bin/nvidia-smi", ONE_H200)
    code, line = said(tmp_path, CHECKS["gpu_topology"].command)
    assert code == 0 and line.startswith("sum ") and line.count("\n") == 1
    one = run(["gpu_links"], lambda check, nodes: (ONE_H200, 0), gpus=1, nvlink=18)
    assert one["cluster", "gpu_links"].detail == "no node declares several GPUs"


def test_files_of_the_efa_installer_that_are_missing_are_named(node: Path) -> None:
    code, text = said(node, CHECKS["efa_files"].command)
    assert code == 0 and "is missing" not in text and text.count(" is there") == 4
    (node / "opt/amazon/openmpi/bin/mpirun").unlink()
    _code, text = said(node, CHECKS["efa_files"].command)
    assert f"{node}/opt/amazon/openmpi*/bin/mpirun is missing" in text
    found = run(["efa_files"], lambda check, nodes: (text, 0))
    assert found["c1", "efa_files"].verdict is Verdict.FAIL


# -- local disks --------------------------------------------------------------------------------------
def test_the_local_scratch_is_measured_and_left_as_it_was(tmp_path: Path) -> None:
    scratch = tmp_path / "nvme"
    scratch.mkdir()
    command = CHECKS["scratch"].command.replace("--mebibytes 1024", "--mebibytes 2")
    (tmp_path / "storage.py").write_bytes((ROOT / "roles/validate/files/storage.py").read_bytes())
    code, text = said(tmp_path, command, VALIDATION_SCRATCH=f"{tmp_path}/none:{scratch}")
    assert code == 0 and set(own.parse(text).figures) == {"write", "read"}
    assert not list(scratch.iterdir())
    code, text = said(tmp_path, command, VALIDATION_SCRATCH=f"{tmp_path}/none")
    assert code == 1 and "none" in text


def test_a_node_with_a_slow_disk_fails_among_its_peers() -> None:
    names = [f"c{number}" for number in range(1, 7)]
    what = asked(names, ["storage"], checks=(CHECKS["scratch"],))
    hosts = tuple(
        dataclasses.replace(host, declared={**host.declared, "scratch": "/scratch"})
        for host in what.hosts
    )

    def fault(check: Check, nodes: tuple[str, ...]) -> Said | None:
        speed = 0.4 if nodes == ("c4",) else 2.0
        figures = {"write": speed, "read": 4.0}
        made = json.dumps({"trainwright": 1, "figures": figures, "faults": []})
        return None if check.name == "probe" else (made, 0)

    course = drive(dataclasses.replace(what, hosts=hosts), fault, {})[0]
    bad = [one for one in course.results if one.verdict is Verdict.FAIL]
    assert [(one.host, one.check) for one in bad] == [("c4", "scratch.write")]
    assert "nvme list" in bad[0].remedy


# -- DCGM ---------------------------------------------------------------------------------------------
def test_the_level_reaches_dcgm_and_its_exit_code_does_not_count(tmp_path: Path) -> None:
    program(tmp_path / "bin/dcgmi", "", 226)
    (tmp_path / "bin/dcgmi").write_text('#!/bin/sh\necho "$*"\nexit 226\n', encoding="utf-8")
    told = said(tmp_path, CHECKS["dcgm"].command, VALIDATION_DCGM_LEVEL="3")
    assert told == (0, "diag -r 3 -j\n")


@pytest.mark.parametrize(
    ("sample", "verdict", "more"),
    [
        ("dcgmi-3-pass.json", Verdict.PASS, None),
        ("dcgmi-3-fail.json", Verdict.FAIL, ("dcgm.fault", Verdict.FAIL)),
        ("dcgmi-3-warn.json", Verdict.PASS, ("dcgm.gap", Verdict.WARN)),
        ("dcgmi-4-persistence.json", Verdict.PASS, ("dcgm.gap", Verdict.WARN)),
        ("", Verdict.INCOMPLETE, None),
    ],
)
def test_dcgm_finds_faults(sample: str, verdict: Verdict, more: tuple[str, Verdict] | None) -> None:
    text = (FIXTURES / sample).read_text(encoding="utf-8") if sample else "Error: no host engine"
    found = run(["dcgm"], lambda check, nodes: (text, 0))
    assert found["c1", "dcgm"].verdict is verdict, found["c1", "dcgm"]
    rest = {(one.check, one.verdict) for one in found.values()} - {("dcgm", verdict)}
    assert (more in rest) if more else not rest


def test_dcgm_is_left_out_at_level_0_and_incomplete_without_its_program() -> None:
    site = plan.Site()
    found = run(["dcgm"], lambda check, nodes: None, site=site)
    assert found["cluster", "dcgm"].verdict is Verdict.NOT_APPLICABLE
    found = run(["dcgm"], lambda check, nodes: None, programs={})
    assert found["c1", "dcgm"].verdict is Verdict.INCOMPLETE
    assert run(["dcgm"], lambda check, nodes: None, gpus=0)["cluster", "dcgm"].detail == (
        "no node declares GPUs"
    )
