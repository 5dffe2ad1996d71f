# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From options and the inventory to what a validation is asked for."""

from __future__ import annotations

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
    "sample": None, "nodes": "all",
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
