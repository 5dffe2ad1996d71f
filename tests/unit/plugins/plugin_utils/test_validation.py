# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From options and the inventory to what a validation is asked for."""

from __future__ import annotations

import re
import subprocess
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import plan
from ansible_collections.trainwright.slurm.plugins.module_utils.validation.catalogue import (
    CheckError,
)
from ansible_collections.trainwright.slurm.plugins.plugin_utils import validation

from tests.unit.plugins.module_utils.validation import stand_in

OPTIONS: dict[str, t.Any] = {
    "queue_seconds": 3600, "parallel": 0, "reservation": "", "only": [], "stages": [],
    "checks": stand_in.given(), "changes": {}, "mounts": [], "buckets": [],
    "sample": None, "nodes": "all", "image": "", "ngc_image": "", "dcgm_level": 2, "cap": None,
    "path": [], "storage": {}, "thresholds": [], "topology": {},
}  # fmt: skip


def test_exports_as_deepops_writes_them_and_as_a_mapping() -> None:
    assert validation.exports("NCCL_DEBUG=INFO, UCX_TLS=tcp,ALL") == {
        "NCCL_DEBUG": "INFO",
        "UCX_TLS": "tcp",
    }
    assert validation.exports({"A": 1}) == {"A": "1"} and validation.exports("") == {}
    assert validation.exports("A=b=c") == {"A": "b=c"}
    # Not secrets: a setting, and the name of a file.
    kept = {"TOKENIZERS_PARALLELISM": "false", "AWS_WEB_IDENTITY_TOKEN_FILE": "/run/token"}
    assert validation.exports(kept) == kept


def test_options_of_srun() -> None:
    assert validation.srun_options("--mpi=pmix --label --comment='a b'") == {
        "mpi": "pmix", "label": True, "comment": "a b",
    }  # fmt: skip
    assert validation.srun_options({"label": True, "nice": 5}) == {"label": True, "nice": "5"}
    for wrong in ("-l", "hostname", "--a 'b", "--mpi pmix"):
        with pytest.raises(plan.PlanError, match="^validate_srun_options: .* -> "):
            validation.srun_options(wrong)


def test_mounts_have_places_for_users() -> None:
    given = [
        {"path": "/home", "purpose": "home", "fstype": "nfs"},
        {"path": "/fsx", "directories": [{"path": "/fsx/data"}, {"path": "/fsx/{a,b}"}]},
    ]
    home, fsx = validation.mounts({**OPTIONS, "mounts": given, "storage": {"/fsx": {"write": 2}}})
    assert home.places == ("~", "/home") and fsx.places == ("/fsx/data", "/fsx")
    assert fsx.provisioned == {"write": 2} and fsx.network


def test_switches_by_path_or_by_description() -> None:
    hosts = {
        "c1": {"slurm_network_path": ["spine", "leaf1"]},
        "c2": {"slurm_network_path": [None]},
        "c3": {},
    }
    assert validation.switches(OPTIONS, hosts) == {"c1": ("spine", "leaf1")}
    topology = {"switches": [{"name": "a", "nodes": "c[1-2]"}, {"name": "b", "nodes": ["c3"]}]}
    found = validation.switches({**OPTIONS, "topology": topology}, hosts)
    assert found == {"c1": ("a",), "c2": ("a",), "c3": ("b",)}


def test_the_probe_asks_for_all_programs() -> None:
    _checks, probe = validation.checks(OPTIONS)
    assert all(
        name in probe.command.split()
        for name in ("mpirun", "fio", "ior", "ib_write_bw", "nvidia-smi")
    )


def test_an_unknown_test_of_slurm_is_refused() -> None:
    with pytest.raises(
        CheckError, match=r"validate_checks.node_state.test: is 'x' -> one of node_state"
    ):
        validation.checks({**OPTIONS, "changes": {"node_state": {"test": "x"}}})


def test_the_training_is_a_script_of_the_renderer() -> None:
    (check,) = [one for one in validation.checks(OPTIONS)[0] if one.kind == "training"]
    hosts = [plan.Host("c1"), plan.Host("c2")]
    text = validation.training(check, hosts, "/home/alice/validation", "r1")
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
    assert (
        "#SBATCH --nodes=2" in text
        and "/home/alice/validation/programs/train.py --steps 50" in text
    )
    assert "export TRAIN_CHECKPOINTS=/home/alice/validation/r1/training_cpu/checkpoints" in text
    assert "{" + "RUN}" not in text


@pytest.mark.parametrize(
    "image",
    [
        "",
        "/shared/images/torch 2.sqsh",
        "torch.sqsh",
        "ubuntu:24.04",
        "docker://ubuntu",
        "nvcr.io#nvidia/pytorch:25.06-py3",
        "docker://nvcr.io/nvidia/pytorch:25.06-py3",
        "alice@registry.site:5000#team/image@sha256:" + 64 * "0",
        "ubuntu:24.04@sha256:" + 64 * "0",
        "podman://localhost/team/image:1",
    ],
)
def test_images_as_pyxis_takes_them(image: str) -> None:
    given = {**OPTIONS, "image": image, "ngc_image": image}
    assert validation.checks(given)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (" ubuntu", "with blanks at an end"),
        ("ubuntu\n", "with blanks at an end"),
        ("ubu\x1bntu", "characters that no name has"),
        ("two words", "-> the absolute path of a squashfs file"),
        ("~/torch.sqsh", "which only a shell expands"),
        ("$HOME/torch.sqsh", "which only a shell expands"),
        ("./torch.sqsh", "the jobs run in another directory"),
        ("/shared/images/", "a directory"),
        ("images/torch.sqsh", "NAME.sqsh of an image of the cluster"),
        ("--container-name=x", "a name in a registry in small letters"),
        ("Ubuntu:24.04", "a name in a registry in small letters"),
        ("nvcr.io//pytorch", "a name in a registry"),
        ("https://nvcr.io/nvidia/pytorch", "a name in a registry"),
        ("ubuntu:", "a name in a registry"),
        ("docker://", "a name in a registry"),
    ],
)
def test_other_images_are_refused_before_any_job(image: str, words: str) -> None:
    for name in ("image", "ngc_image"):
        with pytest.raises(plan.PlanError) as error:
            validation.checks({**OPTIONS, name: image})
        said = str(error.value)
        assert said.startswith(f"validate_{name}: is ") and words in said and " -> " in said, said
        assert "\n" not in said and "\x1b" not in said


def test_a_password_in_an_image_is_refused_and_not_shown() -> None:
    with pytest.raises(
        plan.PlanError, match=r"is '\*\*\*@registry/x', with a password -> "
    ) as error:
        validation.checks({**OPTIONS, "image": "alice:sesame@registry/x"})
    assert "sesame" not in str(error.value)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("cap", -1.0, "node_health_cap_percent: is -1 -> percent of the nodes of a partition"),
        ("cap", 100.5, "node_health_cap_percent: is 100.5 -> "),
        ("cap", float("nan"), "node_health_cap_percent: is nan -> "),
        ("dcgm_level", 5, "validate_dcgm_level: is 5 -> 1 to 4, or 0"),
        ("dcgm_level", -1, "validate_dcgm_level: is -1 -> 1 to 4, or 0"),
    ],
)
def test_numbers_out_of_range_are_refused(option: str, value: float, words: str) -> None:
    with pytest.raises(plan.PlanError, match=f"^{re.escape(words)}"):
        validation.checks({**OPTIONS, option: value})
    for good in (0, 4) if option == "dcgm_level" else (0.0, 100.0, None):
        assert validation.checks({**OPTIONS, option: good})


def test_the_versions_that_a_host_should_have_are_those_of_preflight() -> None:
    assert validation.software({}) == {} == validation.software({"gpu_stack": "none"})
    # Present, without a release to compare with: nothing is expected.
    assert validation.software({"gpu_stack_versions": {"nccl": "2.27.3"}}) == {}
    found = validation.software({"gpu_stack": "managed"})
    assert found["driver"][0] == "595.91.07" and found["driver"][1].startswith("release dlami-")
    named = {
        "gpu_stack_release": "parallelcluster-3.16.3",
        "gpu_stack_versions": {"nccl": "2.27.3"},
    }
    found = validation.software(named)
    assert found["nccl"] == ("2.27.3", "gpu_stack_versions")
    assert found["libfabric"][0] == "2.7.0" and "3.16.3" in found["libfabric"][1]
    # The release does not name it; the EFA installer of the release brings it.
    assert found["ofi_nccl"][0] == "1.22.0" and "EFA installer 1.51.0" in found["ofi_nccl"][1]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"gpu_stack_release": "dlami-1999"}, "gpu_stack_release: dlami-1999 is none of "),
        ({"gpu_stack_release": "x", "gpu_stack_releases": ["x"]}, "gpu_stack_releases: is "),
        (
            {"gpu_stack": "managed", "gpu_stack_versions": {"nccl": 2.1}},
            "gpu_stack_versions.nccl: ",
        ),
        ({"gpu_stack": "managed", "gpu_stack_versions": "2.1"}, "gpu_stack_versions: is '2.1'"),
    ],
)
def test_versions_that_cannot_be_read_are_refused(variables: dict[str, t.Any], words: str) -> None:
    with pytest.raises(plan.PlanError, match=f"^{re.escape(words)}.* -> "):
        validation.software(variables)
