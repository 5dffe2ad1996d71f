# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of the module container_image_info: what it returns, and how it fails."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.module_utils import _internal
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.modules import container_image_info

from tests.unit.gpu_images import NGC, PIP, make
from tests.unit.images import needs_mksquashfs

Run = t.Callable[..., dict[str, t.Any]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.setattr(_internal, "is_controller", False)
    # A process has one list of warnings, which the next test would report.
    monkeypatch.setattr(
        container_image_info.AnsibleModule, "warn", lambda _self, text: said.append(text)
    )
    said: list[str] = []
    config = tmp_path / "jobs.json"
    stack = {"driver": "535.183.01", "efa": "1.38.0", "efa_driver": "2.13.0"}
    config.write_text(json.dumps({"stack": [{"nodes": "gpu[1-2]", "stack": stack}]}))

    def once(**options: t.Any) -> dict[str, t.Any]:
        with patch_module_args({"config": str(config), **options}), pytest.raises(SystemExit):
            container_image_info.main()
        printed: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        returned = set(yaml.safe_load(container_image_info.RETURN))
        assert set(printed) - {"invocation", "changed", "failed", "msg", "warnings"} <= returned
        return {**printed, "said": said}

    return once


def test_the_documented_options_are_those_of_the_module() -> None:
    documented = yaml.safe_load(container_image_info.DOCUMENTATION)["options"]
    assert set(documented) == set(container_image_info.SPEC)
    for name, spec in container_image_info.SPEC.items():
        for key in ("type", "required", "default"):
            assert documented[name].get(key) == spec.get(key), (name, key)


@needs_mksquashfs
def test_an_image_that_cannot_work(run: Run, tmp_path: Path) -> None:
    path = make(PIP, tmp_path / "pip.sqsh")
    made = run(image=path)
    assert not made.get("failed") and made["stack"]["nccl"] == "2.27.3"
    assert [(one["component"], one["sure"]) for one in made["misfits"]] == [("ofi_nccl", True)]
    assert (
        f"{path}: AWS OFI NCCL plugin is missing, wanted any on gpu[1-2] (without it"
        in made["messages"][0]
    )
    assert made["said"] == [*made["messages"], *made["notes"]] and len(made["said"]) == 2
    assert made["obsolete"][0].startswith("FI_EFA_USE_DEVICE_RDMA: ")
    made = run(image=path, fail=True)
    assert made["failed"] and made["error"] == "misfit" and made["msg"] == made["messages"][0]


@needs_mksquashfs
def test_an_image_that_may_work(run: Run, tmp_path: Path) -> None:
    """CUDA 13 brings the libraries for an older driver; the EFA of the image is not newer."""
    made = run(image=make(NGC, tmp_path / "ngc.sqsh"), fail=True)
    assert not made.get("failed") and made["misfits"] == [] and made["pytorch"]


def test_errors(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.sqsh"
    assert run(image=str(path))["error"] == "reference"
    path.write_text("no image")
    assert run(image=str(path))["error"] == "damaged"
    path.write_text("{")
    assert run(image="alpine", config=str(path))["error"] == "failed"
    assert run(image="nvcr.io/nvidia/pytorch:25.06-py3")["file"] == ""
