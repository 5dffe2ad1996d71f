# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lists the checkpoints in a directory, and checks whether each is complete; only reads.

Nothing in a checkpoint is loaded: what torch pickled is looked at and never executed. Runs on nodes:
Python 3.9.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pickletools
import re
import stat
import typing as t
import zipfile
import zlib

from ...node.acting import regular
from ...node.names import some

_TEMPORARY = re.compile(
    r"\A(?:tmp[-_].*|.*\.(?:tmp|temp|partial|part|incomplete)(?:[.-].*)?|\..*\.tmp)\Z", re.I
)
_STEPS = tuple(
    re.compile(text, re.IGNORECASE)
    for text in (
        r"(?:global_?)?steps?[-_=]?(\d+)",
        r"(\d+)[-_]?steps?(?![a-z])",
        r"(?:checkpoint|ckpt|chkpt)[-_=]?(\d+)",
        r"iter(?:ation)?[-_=]?(\d+)",
    )
)
_TORCH = (".pt", ".pth", ".bin", ".ckpt")
_FILES = (*_TORCH, ".safetensors")
# Of programs without torch, such as the recipe cpu; other files of JSON are settings, metrics and records.
_JSON = re.compile(r"(?:(?:global_?)?step|checkpoint|ckpt|iter)[-_]?\d+\.json\Z")
_LARGEST_JSON = 64 * 2**20  # bytes
_SHARD = re.compile(r"-\d+-of-\d+\.(?:safetensors|bin)\Z")
_INDEX = (".safetensors.index.json", ".bin.index.json")
_PART = re.compile(rb"__\d+_\d+\.distcp")
# DeepSpeed, runtime/engine.py: _get_ckpt_name and _get_zero_ckpt_name.
_RANKS = re.compile(r"(?:zero_pp_rank_(?P<data>\d+)_)?mp_rank_(?P<model>\d+)_model_states\.pt\Z")
_ZERO = re.compile(r".*zero_pp_rank_(?P<data>\d+)_mp_rank_(?P<model>\d+)_optim_states\.pt\Z")
_WEIGHTS = re.compile(
    r"(?:(?:adapter_)?model|pytorch_model|adapter_model|pytorch_model_fsdp.*)"
    r"(?:\.safetensors|\.bin)(?:\.index\.json)?\Z"
)
_LONGEST_HEADER = 100_000_000  # bytes; the limit of safetensors itself
_LARGEST_PICKLE = 256 * 2**20  # bytes
_MOST = 2**30  # bytes of another file that are read into memory
# Errors of zipfile for a damaged archive; RuntimeError is for one that seems to be encrypted.
_UNREAD = (
    OSError, EOFError, ValueError, RuntimeError, StopIteration, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint. kind: distributed, torch, safetensors, json, trainer, deepspeed, directory or temporary."""

    name: str
    path: str
    kind: str
    step: int | None
    size: int  # bytes
    modified: float  # seconds since 1970: the newest of its files
    why: str = ""  # it is not complete
    newest: bool = False  # of those that are complete

    @property
    def complete(self) -> bool:
        """Whether all parts that the checkpoint itself lists exist."""
        return not self.why

    def as_dict(self, now: float) -> dict[str, t.Any]:
        """The checkpoint as the module returns it; now: seconds since 1970."""
        age = max(0, int(now - self.modified))
        shown = {"complete": self.complete, "age": age, "modified": int(self.modified)}
        return {**dataclasses.asdict(self), **shown}


def step_of(name: str) -> int | None:
    """Return the step in a name: checkpoint-100, global_step100, step-100, llama_v2-100steps; None without."""
    for pattern in _STEPS:
        match = pattern.search(name)
        if match:
            return int(match[1])
    return None


def listed(directory: str) -> list[Checkpoint]:
    """Return the checkpoints in a directory, the newest first. Raises OSError for the directory itself."""
    latest = _first_line(os.path.join(directory, "latest"))
    found = []
    with os.scandir(directory) as entries:
        names = {entry.name: entry.is_dir() for entry in entries if not entry.is_symlink()}
    for name, is_directory in names.items():
        path = os.path.join(directory, name)
        try:
            one = _judged(name, path, is_directory, latest)
        except OSError as error:
            one = Checkpoint(name, path, "directory", step_of(name), 0, 0.0, _unreadable(error))
        if one:
            found.append(one)
    if latest and latest.startswith("global_step") and latest not in names:
        why = "`latest` names it, and it is not there"
        path = os.path.join(directory, latest)
        found.append(Checkpoint(latest, path, "deepspeed", step_of(latest), 0, 0.0, why))
    found.sort(key=lambda one: (int(one.modified), one.step or 0, one.name), reverse=True)
    newest = next((one for one in found if one.complete), None)
    return [dataclasses.replace(one, newest=one is newest) for one in found]


def _judged(name: str, path: str, is_directory: bool, latest: str) -> Checkpoint | None:
    """Return the checkpoint that an entry of the directory is; None for what is none."""
    sizes, modified = _files(path) if is_directory else _one_file(path)
    temporary = bool(_TEMPORARY.match(name))
    step = step_of(name)
    size = sum(sizes.values())
    if temporary:
        problem = "its name is that of one that is still being written"
        return Checkpoint(name, path, "temporary", step, size, modified, problem)
    if not is_directory and _JSON.match(name):
        kind, problem = "json", _json(path)
    elif not is_directory:
        if _SHARD.search(name) or not name.endswith((*_FILES, *_INDEX)):
            return None
        kind, problem = "torch" if name.endswith(_TORCH) else "safetensors", _file(path)
    elif _is_distributed(sizes):
        kind, problem = "distributed", _distributed(path, sizes)
    elif re.match(r"global_step\d+\Z", name) or any(_RANKS.match(one) for one in sizes):
        kind, problem = "deepspeed", _deepspeed(name, path, sizes, latest)
    elif "trainer_state.json" in sizes or re.match(r"checkpoint-\d+\Z", name):
        kind, problem = "trainer", _trainer(path, sizes)
    elif step is not None or any(one.endswith(_FILES) for one in sizes):
        kind, problem = "directory", _directory(path, sizes)
    else:
        return None
    return Checkpoint(name, path, kind, step, size, modified, problem)


# -- forms -----------------------------------------------------------------------------------------
def _distributed(path: str, sizes: t.Mapping[str, int]) -> str:
    """torch.distributed.checkpoint: .metadata is written last and names the other files."""
    if ".metadata" not in sizes:
        return ".metadata is missing: its save did not end"
    with open(os.path.join(path, ".metadata"), "rb", opener=regular) as file:
        data = file.read(_MOST + 1)
    if len(data) > _MOST:
        return ".metadata is larger than one can be"
    if not data.endswith(b"."):  # the STOP of a pickle
        return ".metadata is cut off"
    wanted = {name.decode() for name in _PART.findall(data)}
    missing = sorted(wanted - set(sizes))
    if missing:
        return f"{_some(missing)} missing"
    for name in sorted(wanted):
        if not sizes[name]:
            return f"{name} is empty"
        # Each is a row of torch's archives; a file that ends before the last one's end is truncated.
        with open(os.path.join(path, name), "rb", opener=regular) as file:
            zipped = file.read(4) == b"PK\x03\x04"
        if zipped and not _ends(os.path.join(path, name)):
            return f"{name} is cut off"
    return ""


def _deepspeed(name: str, path: str, sizes: t.Mapping[str, int], latest: str) -> str:
    """DeepSpeed: files of every rank; `latest` beside it is written after the save."""
    models, zeros = (
        {(int(m["data"] or 0), int(m["model"])) for m in map(form.match, sizes) if m}
        for form in (_RANKS, _ZERO)
    )
    if not models:
        return "mp_rank_00_model_states.pt is missing"
    broken = _intact(path, [one for one in sizes if one.endswith(".pt")])
    if broken:
        return broken
    state = min(one for one in sizes if _RANKS.match(one))
    sized = _integers(os.path.join(path, state), ("dp_world_size", "mp_world_size"))
    each = max([sized.get("mp_world_size", 0), *(model + 1 for _data, model in models | zeros)])
    missing = [f"mp_rank_{n:02}" for n in range(each) if n not in {model for _d, model in models}]
    if zeros:
        count = max([sized.get("dp_world_size", 0), *(data + 1 for data, _model in zeros)])
        missing += [
            f"zero_pp_rank_{data}_mp_rank_{model:02}"
            for model in range(each)
            for data in range(count)
            if (data, model) not in zeros
        ]
    if missing:
        return f"{_some(missing)} missing"
    step, last = step_of(name), step_of(latest)
    if name.startswith("global_step") and (last is None or (step or 0) > last):
        return f"`latest` beside it {f'names {latest}' if latest else 'is missing'}: its save did not end"
    return ""


def _trainer(path: str, sizes: t.Mapping[str, int]) -> str:
    """Hugging Face's Trainer: weights of any form, and trainer_state.json, which comes after them."""
    if "trainer_state.json" not in sizes:
        return "trainer_state.json is missing: its save did not end"
    try:
        with open(
            os.path.join(path, "trainer_state.json"), encoding="utf-8", opener=regular
        ) as file:
            json.loads(file.read(_MOST))
    except (ValueError, RecursionError):
        return "trainer_state.json is cut off"
    if not _parts(sizes) and not any(_WEIGHTS.match(one) for one in sizes):
        return "its weights are missing"
    return _directory(path, sizes)


def _directory(path: str, sizes: t.Mapping[str, int]) -> str:
    """Any other directory: every file of a known form in it is whole."""
    if not sizes:
        return "is empty"
    unfinished = sorted(one for one in sizes if _TEMPORARY.match(os.path.basename(one)))
    if unfinished:
        return f"{unfinished[0]} in it is still being written"
    for part, under in _parts(sizes).items():
        inner = os.path.join(path, part)
        if _is_distributed(under):
            why = _distributed(inner, under)
        else:
            why = _deepspeed(
                os.path.basename(part), inner, under, _first_line(f"{inner}/../latest")
            )
        if why:
            return f"{part}: {why}"
    return _intact(path, [one for one in sizes if one.endswith((*_FILES, *_INDEX))])


def _is_distributed(names: t.Collection[str]) -> bool:
    return ".metadata" in names or any(
        one.startswith("__") and one.endswith(".distcp") for one in names
    )


def _parts(sizes: t.Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return the directories in a checkpoint that are checkpoints of all ranks, with their files."""
    found: dict[str, dict[str, int]] = {}
    for name, size in sizes.items():
        part, base = os.path.split(name)
        if part:
            found.setdefault(part, {})[base] = size
    return {
        part: under
        for part, under in sorted(found.items())
        if _is_distributed(under) or any(map(_RANKS.match, under))
    }


def _intact(path: str, names: t.Iterable[str]) -> str:
    for name in sorted(names):
        why = _file(os.path.join(path, name))
        if why:
            return f"{name} {why}"
    return ""


# -- files -----------------------------------------------------------------------------------------
def _file(path: str) -> str:
    """Return why a file is not whole."""
    if path.endswith(_INDEX):
        return _index(path)
    if path.endswith(".safetensors"):
        return _safetensors(path)
    size = os.path.getsize(path)
    if not size:
        return "is empty"
    with open(path, "rb", opener=regular) as file:
        if file.read(4) != b"PK\x03\x04":
            return "is not an archive: damaged, or of torch before 1.6, which shows no end"
    return "" if _ends(path) else "is cut off"


def _json(path: str) -> str:
    """A document of JSON ends with its last bracket; a large one is judged by that alone."""
    size = os.path.getsize(path)
    if not size:
        return "is empty"
    with open(path, "rb", opener=regular) as file:
        try:
            if size <= _LARGEST_JSON:
                json.loads(file.read(_LARGEST_JSON))
                return ""
            file.seek(-64, os.SEEK_END)
            return "" if file.read().rstrip().endswith((b"]", b"}")) else "is cut off"
        except (ValueError, RecursionError):
            return "is cut off"


def _ends(path: str) -> bool:
    """Whether a zip archive has its directory, which is written last, at its end."""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def _safetensors(path: str) -> str:
    """8 bytes with the length of the header, the header as JSON, the tensors at its offsets."""
    size = os.path.getsize(path)
    with open(path, "rb", opener=regular) as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, _LONGEST_HEADER):
            return "is empty" if not size else "is cut off in its header"
        try:
            header = json.loads(file.read(length))
            ends = [one["data_offsets"][1] for key, one in header.items() if key != "__metadata__"]
            wanted = 8 + length + max(ends, default=0)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return "has a damaged header"
    if size != wanted:
        return (
            f"is cut off: {size} of {wanted} bytes"
            if size < wanted
            else "is longer than its header says"
        )
    return ""


def _index(path: str) -> str:
    """An index names the shards beside it."""
    try:
        with open(path, encoding="utf-8", opener=regular) as file:
            text = file.read(_MOST)
            shards = sorted({str(name) for name in json.loads(text)["weight_map"].values()})
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "is cut off"
    for shard in shards:
        if shard.endswith(_INDEX):
            return f"names {shard}, which is an index too"
        beside = os.path.join(os.path.dirname(path), os.path.basename(shard))
        if not os.path.isfile(beside):
            return f"names {shard}, which is missing"
        why = _file(beside)
        if why:
            return f"names {shard}, which {why}"
    return ""


def _integers(path: str, keys: t.Collection[str]) -> dict[str, int]:
    """Return whole numbers of the dictionary that torch saved; {} where they cannot be found.

    The opcodes of the pickle are read and not run: a key is a string, its value the integer after it.
    """
    found: dict[str, int] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(one for one in archive.namelist() if one.endswith("data.pkl"))
            if archive.getinfo(name).file_size > _LARGEST_PICKLE:
                return {}
            key = ""
            for opcode, value, _position in pickletools.genops(archive.read(name)):
                if opcode.name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
                    continue
                if key and isinstance(value, int) and opcode.name.startswith(("BININT", "LONG")):
                    found[key] = value
                key = value if isinstance(value, str) and value in keys else ""
    except _UNREAD:
        return {}
    return found


def _files(path: str) -> tuple[dict[str, int], float]:
    """Return the size of each file below a directory by its path in it, and the newest change."""
    sizes: dict[str, int] = {}
    modified = os.stat(path).st_mtime
    times = []
    for top, _directories, names in os.walk(path):
        for name in names:
            whole = os.path.join(top, name)
            try:
                status = os.stat(whole)
            except FileNotFoundError:
                continue  # it was just removed or renamed
            if stat.S_ISREG(status.st_mode):
                sizes[os.path.relpath(whole, path)] = status.st_size
                times.append(status.st_mtime)
    return sizes, max(times, default=modified)


def _one_file(path: str) -> tuple[dict[str, int], float]:
    status = os.stat(path)
    total = status.st_size
    if path.endswith(_INDEX):
        beside = os.path.dirname(path)
        total += sum(
            os.path.getsize(os.path.join(beside, one))
            for one in os.listdir(beside)
            if _SHARD.search(one)
        )
    return {os.path.basename(path): total}, status.st_mtime


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=regular) as file:
            return file.readline(200).strip()
    except OSError:
        return ""


def _some(names: t.Sequence[str]) -> str:
    return f"{some(names, 3)} {'is' if len(names) == 1 else 'are'}"


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {error.strerror}"
