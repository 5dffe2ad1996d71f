# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Values of the GPU and EFA software that preflight refuses, of the cluster and of one host."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.inputs import (
    STACK_OF_HOST,
    STACK_VARIABLES,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model

from tests.unit.cluster import ARGUMENTS
from tests.unit.plugins.module_utils.cluster.test_stack import REPOSITORY, given_stack


def managed(**settings: t.Any) -> t.Any:
    return given_stack(word="managed", gpu_stack_repository=REPOSITORY, **settings)


BAD: list[tuple[str, t.Any, str, str, str]] = [
    # Variable, value, the variable of the problem, what, remedy.
    ("nvidia_driver_packages", ["nvidia-open", "-y"], "nvidia_driver_packages", "'-y' is not the name", "names alone"),
    ("nvidia_driver_packages", ["nvidia-open=1"], "nvidia_driver_packages", "not the name", "gpu_stack_versions"),
    ("nvidia_driver_packages", "nvidia-open", "nvidia_driver_packages", "is 'nvidia-open'", "write a list"),
    ("nvidia_driver_runfile_timeout", 0, "nvidia_driver_runfile_timeout", "number of seconds", "from 60"),
    ("efa_installer_options", ["--skip mpi"], "efa_installer_options", "is not an option", "--skip-mpi"),
    ("efa_installer_options", ["--uninstall"], "efa_installer_options", "it uninstalls EFA", "leave it out"),
    ("efa_installer_options", ["--enable-ngc"], "efa_installer_options", "container images alone", "leave it out"),
    ("efa_installer_options", [5], "efa_installer_options", "5: is not an option", "--skip-mpi"),
    ("efa_installer_options", "--skip-mpi", "efa_installer_options", "is '--skip-mpi'", "write a list"),
    ("efa_key_fingerprint", "", "efa_key_fingerprint", "is empty", "that of AWS"),
    ("efa_key_fingerprint", " ", "efa_key_fingerprint", "is empty", "that of AWS"),
    ("efa_key_fingerprint", "AB12", "efa_key_fingerprint", "40 hexadecimal digits", "that of AWS"),
    ("efa_key_url", "x\ny", "efa_key_url", "is not a URL", "https://"),
    ("efa_sha256", "abc", "efa_sha256", "is not a SHA-256", "sha256sum"),
    ("efa_timeout", -1, "efa_timeout", "number of seconds", "from 1"),
    ("efa_timeout", "soon", "efa_timeout", "is 'soon'", "a whole number"),
    ("efa_downgrade", "perhaps", "efa_downgrade", "is 'perhaps'", "true or false"),
    ("efa_kernel_module", "yes", "efa_kernel_module", "is 'yes'", "write one of auto, always, never"),
    ("efa_signature", "no", "efa_signature", "is 'no'", "write one of"),
    ("aws_ofi_nccl_source", "built", "aws_ofi_nccl_source", "is 'built'", "bundled, build"),
    ("aws_ofi_nccl_version", "new", "aws_ofi_nccl_version", "is not a version", "1.19.0"),
    ("aws_ofi_nccl_libfabric", "efa", "aws_ofi_nccl_libfabric", "is not the path", "absolute path"),
    ("aws_ofi_nccl_cuda", "/cuda\n", "aws_ofi_nccl_cuda", "is not the path", "without CUDA"),
    ("aws_ofi_nccl_configure", ["--x\n--y"], "aws_ofi_nccl_configure", "is not one argument", "one line"),
    ("aws_ofi_nccl_sha256", "0" * 63, "aws_ofi_nccl_sha256", "is not a SHA-256", "sha256sum"),
]  # fmt: skip


@pytest.mark.parametrize("where", ["cluster", "c2"])
@pytest.mark.parametrize(("name", "value", "variable", "what", "remedy"), BAD)
def test_a_value_that_would_become_something_else_is_refused(
    name: str, value: t.Any, variable: str, what: str, remedy: str, where: str
) -> None:
    given = managed()
    if where == "cluster":
        given["settings"][name] = value
    else:
        given["differing"]["c2"] = {name: value}
    [problem] = problems(given)
    # What the installer takes in a container is judged for each host.
    hosts = (where, "c[1-3]") if value == ["--enable-ngc"] else (where,)
    assert problem.host in hosts
    assert problem.variable.partition("[")[0] == variable
    assert what in problem.what and remedy in problem.remedy, problem


@pytest.mark.parametrize("name", STACK_OF_HOST)
def test_a_host_may_have_values_of_its_own(name: str) -> None:
    default = ARGUMENTS[name]["default"]
    given = managed()
    given["differing"]["c2"] = {name: REPOSITORY if name == "gpu_stack_repository" else default}
    assert not problems(given)
    assert not set(STACK_OF_HOST) & set(STACK_VARIABLES)


def test_values_that_are_right_are_taken() -> None:
    given = managed(
        efa_installer_options=["--mpi=openmpi4"],
        efa_key_fingerprint="EB693B3035CD5710E231E123A4B469963BF863CC",
        aws_ofi_nccl_configure=["CFLAGS=-O2 -g"],
        aws_ofi_nccl_version="1.9.1-aws",
    )  # fmt: skip
    assert not problems(given)
    # Nobody reads the fingerprint then.
    given["differing"]["c2"] = {"efa_signature": "never", "efa_key_fingerprint": ""}
    assert not problems(given)


def test_an_option_for_containers_is_right_in_one() -> None:
    given = managed(efa_installer_options=["--enable-ngc"])
    given["facts"]["c1"]["virtualization"] = given["facts"]["c3"]["virtualization"] = "container"
    [problem] = problems(given)
    assert problem.host == "c2"


@pytest.mark.parametrize("option", ["--skip-plugin", "--minimal", "-m"])
def test_options_without_the_plugin_are_refused_where_nobody_else_brings_it(option: str) -> None:
    given = managed(efa_installer_options=[option])
    [problem] = problems(given)
    assert problem.host == "c[1-3]" and problem.variable == "efa_installer_options"
    assert f"{option} leaves out NCCL's plugin" in problem.what
    assert "aws_ofi_nccl_source: build" in problem.remedy
    given["settings"]["aws_ofi_nccl_source"] = "build"
    assert not problems(given)
    given["differing"]["c2"] = {"aws_ofi_nccl_source": "bundled"}
    assert [one.host for one in problems(given)] == ["c2"]
    given["host_vars"]["c2"]["gpu_stack"] = "present"
    assert not problems(given)


def test_a_release_without_a_driver_is_told() -> None:
    given = managed(gpu_stack_release="fsdp-2025-02")
    for host in ("c1", "c2", "c3"):
        given["facts"][host]["stack"] = {}
    # It is there, loaded or not.
    given["facts"]["c1"]["stack"] = {"driver": "595.91.07"}
    given["facts"]["c3"]["driver_from"] = {"packages": ["nvidia-open"], "runfile": ""}
    [problem] = problems(given)
    assert (problem.host, problem.variable) == ("c2", "gpu_stack_release")
    assert problem.what.startswith("is fsdp-2025-02, which names no driver")
    assert "gpu_stack_versions" in problem.remedy
    given["settings"]["gpu_stack_versions"] = {"driver": "595.91.07"}
    assert not problems(given)


@pytest.mark.parametrize(
    ("change", "variable", "what"),
    [
        ({"suite": "x\ny"}, "gpu_stack_repository.suite", "is not one word"),
        ({"components": ["main contrib"]}, "gpu_stack_repository.components", "is not one word"),
        ({"key_url": "key.asc"}, "gpu_stack_repository.key_url", "is not a URL"),
        ({"key_fingerprint": ""}, "gpu_stack_repository.key_fingerprint", "40 hexadecimal digits"),
    ],
)
def test_a_repository_that_apt_would_read_otherwise_is_refused(
    change: dict[str, t.Any], variable: str, what: str
) -> None:
    whole = {"url": "https://x/y", "key_url": "https://x/k", "key_fingerprint": "AB" * 20}
    given = managed()
    given["differing"]["c2"] = {"gpu_stack_repository": {**whole, **change}}
    [problem] = problems(given)
    assert (problem.host, problem.variable) == ("c2", variable) and what in problem.what


def test_sources_are_looked_up_once_for_each_set_of_values() -> None:
    given = managed()
    assert build_model(given)["stack"]["sources"] == {"efa": ["c1"], "aws_ofi_nccl": []}
    given["settings"]["aws_ofi_nccl_source"] = "build"
    given["differing"]["c2"] = {"efa_signature": "never"}
    found = build_model(given)["stack"]["sources"]
    assert found == {"efa": ["c1", "c2"], "aws_ofi_nccl": ["c1"]}
