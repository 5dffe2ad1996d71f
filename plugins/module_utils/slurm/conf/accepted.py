# The configuration that slurmctld last accepted, and the one that was proved to run jobs.
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The files beside the copies of the accepted configuration, which an interrupted run leaves as they are.

accepted.json has the files that slurmctld was last given; before.json the nodes just before that; proved.json
the files with which a step last ran, and what each node ran it with. All three are for root alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
import typing as t

from ansible_collections.trainwright.slurm.plugins.module_utils.node import keyed
from ansible_collections.trainwright.slurm.plugins.module_utils.node.slurm_places import conf_words
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import syntax
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.releases import major_minor

ACCEPTED = "accepted.json"
BEFORE = "before.json"
#: scontrol prints times so; others of its output stay comparable too.
AS_READ = ("TZ=UTC", "LC_ALL=C", "SLURM_TIME_FORMAT=standard")
#: Seconds for nodes to register with a slurmctld that has started.
_REGISTER_S = 20.0
PROVED = "proved.json"
#: From here on a slurmd that is reconfigured is a new process, or logs why not and continues as the old one.
NEW_PROCESS = (23, 11)
_KEPT = ("path", "content", "mode", "owner", "group", "state")
_NODE = re.compile(r"^NodeName=(\S+)(.*?)(?=^NodeName=|\Z)", re.MULTILINE | re.DOTALL)


def content(spec: dict) -> str:
    """Return the wanted text of a file."""
    return spec.get("content") or ""


def text_of(path: str) -> str | None:
    """Return the text of a file on this host, None for no file."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as handle:
            return handle.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_drop_in(path: str) -> bool:
    """Whether a file is a drop-in of a systemd unit, which only a restart puts into effect."""
    return bool(re.search(r"/systemd/system/[^/]+\.d/[^/]+\.conf$", path))


def path_of(spec: dict, settings: t.Any) -> str:
    """Where the copy of a file is kept that slurmctld was last given."""
    name = os.path.basename(spec["path"])
    if is_drop_in(spec["path"]):
        name = f"{settings.service}.service.d-{name}"
    return os.path.join(settings.applied_dir, name)


def recorded(spec: dict, settings: t.Any) -> str:
    """Return what is kept of a file: its text, of a secret one its digest."""
    text = content(spec)
    return keyed.keyed(text, settings.applied_dir) + "\n" if spec.get("secret") else text


def plain_digest(spec: dict) -> str:
    """Return what an older release kept of a secret file."""
    return hashlib.sha256(content(spec).encode()).hexdigest() + "\n"


def kept(specs: list[dict]) -> list[dict]:
    """Return the files that slurmctld reads, as they can be given again. Secret ones are left out."""
    return [
        {key: spec.get(key) for key in _KEPT}
        for spec in specs
        if syntax.read_by_slurmctld(spec["path"]) and not spec.get("secret")
    ]


def differ(one: str | None, other: str | None, path: str) -> bool:
    """Whether two texts of a file differ for Slurm; None for no file."""
    if one is None or other is None:
        # A file that holds nothing but comments is as good as none.
        return bool(syntax.meaning(one or other or "", path))
    return syntax.meaning(one, path) != syntax.meaning(other, path)


def of_form(applied: str, wanted: str) -> syntax.Decision:
    """Return the step for a slurm.conf that says the same: a reconfigure where its lines are others, else none.

    A host counts as behind (cluster/hosts.py) where it has other lines than those that are wanted.
    """
    if conf_words(applied) == conf_words(wanted):
        return syntax.Decision()
    return syntax.Decision(
        "reconfigure", False, [("slurm.conf", "the same", "in other lines", "reconfigure")]
    )


def decide(applied: str, wanted: str, version: str) -> syntax.Decision:
    """Return the step from one slurm.conf to another."""
    try:
        old = syntax.parse(applied)
    except syntax.ConfError:
        # A file that Slurm itself cannot read was never applied: nothing can be compared.
        return syntax.Decision("restart", True, [("slurm.conf", "unreadable", "", "restart")])
    decision = syntax.decide(old, syntax.parse(wanted), version)
    return decision if decision.reasons else of_form(applied, wanted)


def partition_states(applied: str, spec: dict) -> tuple[dict[str, str], list[str]]:
    """Return the state of each partition by an accepted slurm.conf, and the partitions that get another one.

    spec: the wanted slurm.conf. A state that somebody has written into its place by hand is another one, too.
    """
    then, wanted = _partition_states(applied), _partition_states(content(spec))
    there = _partition_states(text_of(spec["path"]) or "")
    other = [
        name
        for name, state in wanted.items()
        if state != then.get(name, state) or state != there.get(name, state)
    ]
    return then, other


def _partition_states(text: str) -> dict[str, str]:
    try:
        lines = syntax.parse(text).of("PartitionName")
    except syntax.ConfError:
        return {}
    usual, found = "UP", {}
    for pairs in lines:
        state = pairs.get("State", usual).upper()
        if pairs["PartitionName"].upper() == "DEFAULT":
            usual = state
        else:
            found[pairs["PartitionName"]] = state
    return found


def _meaning(spec: dict) -> list[str]:
    return syntax.meaning(content(spec), spec["path"])


def manifest(specs: list[dict]) -> str:
    """Return the text of accepted.json."""
    return json.dumps({"files": kept(specs)}, indent=1) + "\n"


def digest(specs: list[dict]) -> str:
    """Return a digest of what nodes are given: the same for files that differ in comments only."""
    given = sorted(
        (os.path.basename(spec["path"]), repr(_meaning(spec)))
        for spec in kept(specs)
        if spec["state"] != "absent" and "/systemd/" not in spec["path"]
    )
    return hashlib.sha256(json.dumps(given).encode(errors="surrogateescape")).hexdigest()


def read(directory: str, name: str) -> dict[str, t.Any]:
    """Return one of the files, {} where it is missing or broken."""
    try:
        with open(os.path.join(directory, name), encoding="utf-8") as handle:
            found = json.load(handle)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def write(directory: str, name: str, data: dict[str, t.Any]) -> None:
    """Replace one of the files."""
    keyed.write_private(os.path.join(directory, name), json.dumps(data, indent=1) + "\n")


def starts(shown: str) -> dict[str, str]:
    """Return when each slurmd started, as `scontrol show node` prints it."""
    found = (
        (name, re.search(r"SlurmdStartTime=(\S+)", rest)) for name, rest in _NODE.findall(shown)
    )
    return {
        name: match[1] for name, match in found if match and match[1] not in ("None", "Unknown")
    }


def drained(shown: str) -> list[str]:
    """Return the nodes that are drained."""
    return [name for name, rest in _NODE.findall(shown) if re.search(r"State=\S*DRAIN", rest)]


def before(directory: str) -> dict[str, t.Any]:
    """Return before.json; {} where it has the times of another zone, as earlier releases wrote them."""
    found = read(directory, BEFORE)
    return found if found.get("zone") == "UTC" else {}


def _write_before(directory: str, data: dict[str, t.Any]) -> None:
    write(directory, BEFORE, {**data, "zone": "UTC"})


def wait_registered(scontrol: t.Callable[..., tuple[int, str, str]]) -> None:
    """Wait a while until a slurmctld that has just started knows when each slurmd started."""
    end = time.monotonic() + _REGISTER_S
    while time.monotonic() < end:
        rc, shown, _err = scontrol("show", "node")
        known = starts(shown)
        if not rc and all(
            name in known or re.search(r"State=\S*(DOWN|POWER|FUTURE|NOT_RESPONDING|\*)", rest)
            for name, rest in _NODE.findall(shown)
        ):
            return
        time.sleep(0.5)


def note_nodes(
    settings: t.Any, scontrol: t.Callable[..., tuple[int, str, str]], of: str, told: bool
) -> None:
    """Write before.json, just before slurmctld is told. of: the digest of what it is told.

    told: each slurmd is then a new process, where Slurm does that. The drained nodes are those before the first
    change since the last proof.
    """
    rc, shown, _err = scontrol("show", "node")
    if rc:
        return
    directory, found = settings.applied_dir, starts(shown)
    told = told and major_minor(settings.version) >= NEW_PROCESS
    earlier = before(directory)
    now = {
        "of": of,
        "told": told,
        "starts": found,
        "drained": earlier.get("drained", drained(shown)),
        "since": earlier.get("since", int(time.time())),
    }
    os.makedirs(directory, mode=0o700, exist_ok=True)
    _write_before(directory, now)
    newest = max(found.values(), default="")
    if told and newest >= time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 1)):
        # Slurm prints whole seconds: a slurmd that starts now would look like the one before.
        time.sleep(1.1)


def keep_old(directory: str, noted: t.Mapping[str, t.Any], shown: str) -> None:
    """Leave in before.json only the nodes whose slurmd is still the process of then, and no file without any.

    A later run may have them: their steps run, and at their next boot slurmd may refuse the configuration.
    """
    then, now = noted.get("starts", {}), starts(shown)
    # A slurmctld that was reconfigured does not know the start of a slurmd that has not answered since.
    listed = {name for name, _rest in _NODE.findall(shown)}
    left = {
        one: start for one, start in then.items() if one in listed and now.get(one, start) == start
    }
    if left and noted.get("told"):
        _write_before(directory, {"of": noted["of"], "told": True, "starts": left})
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, BEFORE))
