# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of judging checkpoints, which are written in their real forms and then damaged."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import typing as t
import zipfile
from pathlib import Path

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.training.watch import checkpoints

Make = t.Callable[[Path], None]
Damage = t.Callable[[Path], t.Any]


def torch_file(path: Path, content: t.Any = None) -> None:
    """An archive as torch.save() writes it: a pickle and the storages, stored without compression."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(content or {"step": 1}, protocol=2))
        archive.writestr("archive/data/0", os.urandom(4096))
        archive.writestr("archive/version", "3\n")


def safetensors_file(path: Path, count: int = 100) -> None:
    tensors = {
        "w": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": [4 * count, 4 * count + 8]},
        "__metadata__": {"format": "pt"},
    }
    header = json.dumps(tensors).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4 * count + 8))


def sharded(directory: Path) -> None:
    names = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    for name in names:
        safetensors_file(directory / name)
    index = {"metadata": {"total_size": 816}, "weight_map": dict(zip("ab", names))}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def distributed(directory: Path) -> None:
    """As torch.distributed.checkpoint does: archives one after the other in each file; .metadata is last."""
    directory.mkdir(parents=True, exist_ok=True)
    storage = {}
    for name in ("__0_0.distcp", "__1_0.distcp", "__1_1.distcp"):
        for number in range(2):
            part = directory / "part"
            torch_file(part)
            with (directory / name).open("ab") as file:
                file.write(part.read_bytes())
            part.unlink()
            storage[f"{name} {number}"] = {"relative_path": name, "offset": 0, "length": 1}
    (directory / ".metadata").write_bytes(pickle.dumps({"storage_data": storage}))


def trainer(directory: Path) -> None:
    directory.mkdir()
    sharded(directory)
    torch_file(directory / "optimizer.pt")
    torch_file(directory / "rng_state_0.pth")
    (directory / "config.json").write_text("{}")
    (directory / "trainer_state.json").write_text(json.dumps({"global_step": 100}))


def deepspeed(directory: Path) -> None:
    directory.mkdir(parents=True)
    state = {
        "module": {"w": [1.0] * 50},
        "dp_world_size": 2,
        "mp_world_size": 2,
        "ds_version": "0.16",
    }
    for model in range(2):
        torch_file(directory / f"mp_rank_0{model}_model_states.pt", state)
        for data in range(2):
            torch_file(directory / f"bf16_zero_pp_rank_{data}_mp_rank_0{model}_optim_states.pt")
    (directory.parent / "latest").write_text(directory.name)


def json_file(path: Path) -> None:
    path.write_text(json.dumps({"step": 100, "weights": [0.5, 1.0]}) + "\n")


def files(directory: Path) -> None:
    directory.mkdir()
    torch_file(directory / "model.pt")


FORMS: dict[str, tuple[Make, str]] = {
    "step-100": (distributed, "distributed"),
    "checkpoint-100": (trainer, "trainer"),
    "global_step100": (deepspeed, "deepspeed"),
    "llama_v2-100steps": (files, "directory"),
    "epoch=3-step=100.ckpt": (torch_file, "torch"),
    "model_step_100.pt": (torch_file, "torch"),
    "model-step100.safetensors": (safetensors_file, "safetensors"),
    "step-000100.json": (json_file, "json"),
}


def only(directory: Path) -> checkpoints.Checkpoint:
    (found,) = checkpoints.listed(str(directory))
    return found


@pytest.mark.parametrize("name", FORMS)
def test_a_whole_one_of_each_form(tmp_path: Path, name: str) -> None:
    make, kind = FORMS[name]
    make(tmp_path / name)
    found = only(tmp_path)
    assert (found.name, found.kind, found.step, found.why) == (name, kind, 100, "")
    assert found.complete and found.newest and found.path == str(tmp_path / name)
    parts = [tmp_path / name, *(tmp_path / name).rglob("*")]
    assert found.size == sum(part.stat().st_size for part in parts if part.is_file())


def cut(path: Path, bytes_: int = 10) -> None:
    """The end is missing, as after a disk that ran full or a writer that was killed."""
    os.truncate(path, path.stat().st_size - bytes_)


def garbage(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


@pytest.mark.parametrize(
    ("name", "damage", "why"),
    [
        ("step-100", lambda p: (p / ".metadata").unlink(), ".metadata is missing"),
        ("step-100", lambda p: cut(p / ".metadata", 1), ".metadata is cut off"),
        ("step-100", lambda p: (p / "__1_0.distcp").unlink(), "__1_0.distcp is missing"),
        ("step-100", lambda p: cut(p / "__0_0.distcp"), "__0_0.distcp is cut off"),
        ("step-100", lambda p: os.truncate(p / "__1_1.distcp", 0), "__1_1.distcp is empty"),
        ("checkpoint-100", lambda p: (p / "trainer_state.json").unlink(), "trainer_state.json is missing"),
        ("checkpoint-100", lambda p: cut(p / "trainer_state.json", 2), "trainer_state.json is cut off"),
        ("checkpoint-100", lambda p: cut(p / "optimizer.pt"), "optimizer.pt is cut off"),
        (
            "checkpoint-100",
            lambda p: (p / "model-00002-of-00002.safetensors").unlink(),
            "names model-00002-of-00002.safetensors, which is missing",
        ),
        (
            "checkpoint-100",
            lambda p: [one.unlink() for one in p.glob("model*")],
            "its weights are missing",
        ),
        ("checkpoint-100", lambda p: cut(p / "model.safetensors.index.json", 5), "index.json is cut off"),
        ("global_step100", lambda p: (p.parent / "latest").unlink(), "`latest` beside it is missing"),
        (
            "global_step100",
            lambda p: (p.parent / "latest").write_text("global_step50"),
            "`latest` beside it names global_step50",
        ),
        (
            "global_step100",
            lambda p: (p / "mp_rank_01_model_states.pt").unlink(),
            "mp_rank_01 is missing",
        ),
        (
            "global_step100",
            lambda p: [one.unlink() for one in p.glob("*zero_pp_rank_1_*")],
            "zero_pp_rank_1_mp_rank_00, zero_pp_rank_1_mp_rank_01 are missing",
        ),
        (
            "global_step100",
            lambda p: cut(p / "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"),
            "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt is cut off",
        ),
        ("llama_v2-100steps", lambda p: cut(p / "model.pt", 2000), "model.pt is cut off"),
        ("llama_v2-100steps", lambda p: (p / "model.pt").unlink(), "is empty"),
        ("llama_v2-100steps", lambda p: (p / "optim.pt.tmp").touch(), "still being written"),
        ("model_step_100.pt", lambda p: cut(p, 1), "is cut off"),
        ("model_step_100.pt", lambda p: os.truncate(p, 0), "is empty"),
        ("model_step_100.pt", garbage, "is not an archive"),
        ("model-step100.safetensors", lambda p: cut(p, 1), "is cut off: "),
        ("model-step100.safetensors", lambda p: os.truncate(p, 30), "is cut off in its header"),
        ("model-step100.safetensors", lambda p: os.truncate(p, 0), "is empty"),
        ("model-step100.safetensors", garbage, "is cut off in its header"),
        ("model-step100.safetensors", lambda p: p.open("ab").write(b"x"), "is longer"),
        ("step-000100.json", lambda p: cut(p, 2), "is cut off"),
        ("step-000100.json", lambda p: os.truncate(p, 0), "is empty"),
        ("step-000100.json", lambda p: (os.truncate(p, 0), os.truncate(p, 70 * 2**20)), "is cut off"),
    ],
)  # fmt: skip
def test_a_damaged_one(tmp_path: Path, name: str, damage: Damage, why: str) -> None:
    FORMS[name][0](tmp_path / name)
    assert only(tmp_path).complete
    damage(tmp_path / name)
    found = {one.name: one for one in checkpoints.listed(str(tmp_path))}[name]
    assert why in found.why and not found.complete and not found.newest


def test_a_trainer_with_parts_of_all_ranks(tmp_path: Path) -> None:
    """As Accelerate has it with FSDP, and with DeepSpeed."""
    fsdp = tmp_path / "checkpoint-100"
    fsdp.mkdir()
    (fsdp / "trainer_state.json").write_text("{}")
    distributed(fsdp / "pytorch_model_fsdp_0")
    assert (only(tmp_path).kind, only(tmp_path).why) == ("trainer", "")
    (fsdp / "pytorch_model_fsdp_0" / ".metadata").unlink()
    assert only(tmp_path).why.startswith("pytorch_model_fsdp_0: .metadata is missing")
    shutil.rmtree(fsdp / "pytorch_model_fsdp_0")
    deepspeed(fsdp / "global_step100")
    assert only(tmp_path).why == ""
    (fsdp / "global_step100" / "mp_rank_00_model_states.pt").unlink()
    assert "mp_rank_00 is missing" in only(tmp_path).why


def test_a_checkpoint_that_latest_names_and_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "latest").write_text("global_step300\n")
    assert only(tmp_path).why == "`latest` names it, and it is not there"


@pytest.mark.parametrize(
    "name", ["step-100.tmp", "tmp-checkpoint-100", "model.pt.partial", ".step-5.tmp"]
)
@pytest.mark.parametrize("make", [files, torch_file])
def test_temporary_names(tmp_path: Path, name: str, make: Make) -> None:
    make(tmp_path / name)
    assert only(tmp_path).kind == "temporary" and "still being written" in only(tmp_path).why


def test_what_is_no_checkpoint_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "events.out.tfevents.1").touch()
    for name in ("config.json", "run-1042.json", "metrics-step100.json", "trainer_state.json"):
        (tmp_path / name).write_text("{}")
    torch_file(tmp_path / "step-100.pt")
    (tmp_path / "last.pt").symlink_to("step-100.pt")
    assert only(tmp_path).name == "step-100.pt"


def test_shards_in_the_directory_itself_are_one(tmp_path: Path) -> None:
    sharded(tmp_path)
    found = only(tmp_path)
    assert found.name == "model.safetensors.index.json" and found.complete and found.size > 800


def test_the_newest_complete_one_is_marked(tmp_path: Path) -> None:
    for age, step in ((300, 100), (200, 200), (100, 300)):
        path = tmp_path / f"step-{step}.pt"
        torch_file(path)
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
    cut(tmp_path / "step-300.pt")
    os.utime(tmp_path / "step-300.pt", (999_900, 999_900))
    found = checkpoints.listed(str(tmp_path))
    assert [(one.step, one.complete, one.newest) for one in found] == [
        (300, False, False), (200, True, True), (100, True, False)
    ]  # fmt: skip
    assert found[1].as_dict(1_000_000)["age"] == 200


def test_nothing_in_it_is_executed(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> t.Any:
            return os.mkdir, (str(tmp_path / "executed"),)

    deepspeed(tmp_path / "global_step100")
    torch_file(
        tmp_path / "global_step100" / "mp_rank_00_model_states.pt",
        {"x": Trap(), "dp_world_size": 2},
    )
    distributed(tmp_path / "step-5")
    (tmp_path / "step-5" / ".metadata").write_bytes(pickle.dumps(Trap()))
    checkpoints.listed(str(tmp_path))
    assert not (tmp_path / "executed").exists()


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        checkpoints.listed(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("global_step1000", 1000),
        ("checkpoint-500", 500),
        ("iter_0001000", 1000),
        ("ckpt_12.pt", 12),
        ("epoch=3-step=400.ckpt", 400),
        ("llama_v2-200steps", 200),
        ("step-100", 100),
        ("final", None),
        ("llama2", None),
    ],
)
def test_steps_in_names(name: str, step: int | None) -> None:
    assert checkpoints.step_of(name) == step


DEEP = "[" * 200_000


@pytest.mark.parametrize(
    ("name", "file", "data", "why"),
    [
        ("checkpoint-1", "trainer_state.json", DEEP.encode(), "trainer_state.json is cut off"),
        ("step-1", "model.safetensors.index.json", DEEP.encode(), "is cut off"),
        (
            "step-1",
            "model.safetensors",
            len(DEEP).to_bytes(8, "little") + DEEP.encode(),
            "has a damaged header",
        ),
        (
            "step-1",
            "model.safetensors.index.json",
            b'{"weight_map": {"a": "model.safetensors.index.json"}}',
            "which is an index too",
        ),
    ],
)
def test_files_that_python_cannot_read_are_not_complete(
    tmp_path: Path, name: str, file: str, data: bytes, why: str
) -> None:
    """A checkpoint is a user's, and root looks at it too: no file in it ends the look with a traceback."""
    (tmp_path / name).mkdir()
    (tmp_path / name / file).write_bytes(data)
    (found,) = checkpoints.listed(str(tmp_path))
    assert why in found.why


@pytest.mark.parametrize("fault", ["encrypted", "method"])
def test_an_archive_that_zipfile_cannot_read_has_no_numbers(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "global_step1" / "mp_rank_00_model_states.pt"
    path.parent.mkdir()
    (tmp_path / "latest").write_text("global_step1")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"N.")
    data = bytearray(path.read_bytes())
    central = data.find(b"PK\x01\x02")
    if fault == "encrypted":
        data[6] |= 1
        data[central + 8] |= 1
    else:
        data[8] = data[central + 10] = 99
    path.write_bytes(data)
    (found,) = checkpoints.listed(str(tmp_path))
    assert found.complete
