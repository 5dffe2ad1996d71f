# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The control node's part of the digest of what is wanted: the collection, the inventory, a site's own files."""

from __future__ import annotations

import functools
import hashlib
import math
import multiprocessing
import os
import posixpath
import re
import time
import typing as t
from pathlib import Path

import jinja2
from ansible import constants, context
from ansible.errors import AnsibleError
from ansible.release import __version__ as core_version
from ansible_collections.trainwright.slurm.plugins.module_utils.node.manifest import passes

from .customise import CustomiseError, site_template

_ROOT = Path(__file__).resolve().parents[2]
_PARTS = ("roles", "plugins", "playbooks", "recipes", "galaxy.yml", "MANIFEST.json")
#: Names that Ansible, or this run, gives to a host; the inventory's are all others.
_NOT_INVENTORY = re.compile(
    r"__|ansible_(?!host$)|inventory_(?:dir|file|hostname|hostname_short)$|playbook_dir$|omit$|vars$"
)
_OF_THE_RUN = {
    *("slurm_facts", "slurm_model", "groups", "hostvars", "environment", "play_hosts"),
    # They decide what a run looks at or writes on the control node, and not what it leaves on hosts.
    *("site_full", "slurm_preflight_report", "role_name", "role_names", "role_path", "group_names"),
}
#: In a template: what each play and each role has of its own, also with a default.
_OF_A_PLAY = re.compile(
    r"\b(?:ansible_play_\w+|play_hosts|role_\w+|ansible_role_\w+|slurm_model|slurm_facts)\b"
)
#: In a template: what is neither among the variables of the host nor in its facts, and may change by itself.
_ELSEWHERE = re.compile(r"\b(?:hostvars|groups|slurm_\w+|lookup|query|q|now|random|shuffle|vars)\b")
#: In a template: variables of other hosts.
_OF_HOSTS = re.compile(r"\bhostvars\b")
_NAME = re.compile(r"\b[A-Za-z_]\w*\b")
#: A variable of the play of preflight in site.yml.
_OWN = ("__preflight_alone",)
#: In a template: another one, which reads what it likes. Also a lookup by a name that is not written there.
_OTHER_TEMPLATE = re.compile(
    r"""\b(?:lookup|query|q)\s*\(\s*(?:\\*['"](?:ansible\.(?:builtin|legacy)\.|trainwright\.slurm\.)?template\b"""
    r"""|[^'"\\\s])"""
    r"|\{%[-+]?\s*(?:include|import|from|extends)\b"
)
#: Roles whose templates are for hosts that may be left out. A template of the site reads what it likes.
_TEMPLATES = tuple(f"{role}_template" for role in ("node_health", "slurm_login", "slurmd"))
#: Variables for things that wait for a boot, or come by modules of Ansible; cluster/wanted.py has them for all hosts.
_UNRECORDED = ("node_tuning_kernel_arguments", "node_health_nhc_conf")


class NotKnown(Exception):
    """A digest of what is wanted cannot be made, so a run walks over the host."""


def whole_run() -> bool:
    """Whether the command line asks for all tasks of the playbook."""
    given = context.CLIARGS
    tags = list(given.get("tags") or ())
    return not (
        tags not in ([], ["all"])
        or given.get("skip_tags")
        or given.get("start_at_task")
        or given.get("step")
    )


def begun() -> float:
    """Return when this run of Ansible began, in seconds since 1970. Called in a worker or in the run itself.

    Infinity on a control node that does not tell (macOS).
    """
    run = os.getppid() if multiprocessing.parent_process() else os.getpid()
    try:
        since = Path(f"/proc/{run}/stat").read_text(encoding="utf-8").rpartition(")")[2]
    except OSError:
        return math.inf
    ticks = int(since.split()[19])
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def _files() -> t.Iterator[Path]:
    for part in _PARTS:
        path = _ROOT / part
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file


@functools.lru_cache(maxsize=1)
def collection_digest() -> str:
    """Return a digest of all files that decide what is written on a host, and of the releases that render them.

    Raises OSError, and NotKnown where a file is newer than the run: Ansible has read the tasks when it began.
    """
    made = hashlib.sha256()
    first = begun()
    for file in _files():
        # A changed file keeps its time of modification where an archive or rsync brings it, and not this one.
        if file.stat().st_ctime > first:
            raise NotKnown(f"{file}: has changed since this run began")
        made.update(f"{file.relative_to(_ROOT)}\0".encode())
        made.update(hashlib.sha256(file.read_bytes()).digest())
    made.update(f"{core_version} {jinja2.__version__}".encode())
    # Whether mappings of the inventory are merged with the roles' own.
    made.update(str(constants.DEFAULT_HASH_BEHAVIOUR).encode())
    # The sums of the artifacts that replace the table's.
    stand_in = os.environ.get("TRAINWRIGHT_ARTIFACTS", "")
    made.update(stand_in.encode())
    if stand_in and os.path.isfile(sums := os.path.join(stand_in, "SHA256SUMS")):
        made.update(Path(sums).read_bytes())
    return made.hexdigest()


@functools.lru_cache(maxsize=1)
def _text_of_the_collection() -> str:
    return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in _files())


@functools.cache
def _is_read_here(name: str) -> bool:
    """Whether this collection may read a variable of this name: its files have the word."""
    return bool(re.search(rf"\b{re.escape(name)}\b", _text_of_the_collection()))


def inventory_names(variables: t.Mapping[str, t.Any]) -> list[str]:
    """Return the names of the variables that a host has from its inventory and from the command line."""
    facts = variables.get("ansible_facts") or {}
    return sorted(
        name
        for name in variables
        if name not in _OF_THE_RUN
        and not _NOT_INVENTORY.match(name)
        # A fact of that name may be one that Ansible does not make a variable.
        and not (name in facts and variables[name] == facts[name])
    )


def texts_of(name: str, variables: t.Mapping[str, t.Any]) -> str:
    """Return the text of a variable with those of all variables that its templates name, also of helpers (__name)."""
    found: dict[str, str] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop()
        text = str(variables[one])
        found[one] = text
        if re.search(r"\{[{%]", text):
            named = {*_NAME.findall(text)} - found.keys() - {*waiting} - _OF_THE_RUN
            waiting += [other for other in sorted(named) if other in variables]
    return "\n".join(found.values())


def reads_of_a_play(variables: t.Mapping[str, t.Any]) -> bool:
    """Whether a variable of a host is another one in the roles: a template that reads it here may have a default."""
    return any(
        _OF_A_PLAY.search(str(value))
        for name, value in variables.items()
        if name not in _OF_THE_RUN and not name.startswith("ansible_") and "{" in str(value)
    )


def names_of(play: t.Any) -> set[str]:
    """Return the names of the variables of the play itself, such as those of an import_playbook."""
    return {*play.get_vars()} - {*_OWN}


def play_variables(
    play: t.Any, template: t.Callable[[t.Any], t.Any], plain: t.Callable[[t.Any], t.Any]
) -> dict[str, t.Any]:
    """Return the variables of the play itself: no host has them.

    template: for values that are kept in a vault. Raises NotKnown where a value depends on who reads it.
    """
    found = {}
    for name in sorted(names_of(play)):
        value = play.get_vars()[name]
        if name.endswith("_template") or name == "job_hooks_parts":
            raise NotKnown(f"{name}: names files, and is a variable of the play")
        if re.search(r"\{[{%#]", str(value)):
            raise NotKnown(f"{name}: a template among the variables of the play")
        found[name] = plain(template(value))
    _refuse_passing(found)
    _refuse_unrecorded(found)
    return found


def host_variables(
    variables: t.Mapping[str, t.Any],
    template: t.Callable[[t.Any], t.Any],
    places: t.Sequence[str],
    plain: t.Callable[[t.Any], t.Any],
    served: bool = False,
    others: t.Callable[[], bool] = lambda: False,
    of_play: t.Collection[str] = (),
) -> dict[str, t.Any]:
    """Return the values of a host's variables, and the digests of the files of the site that they name.

    variables: of one host, with their templates. template: resolves these with all that the host's tasks have. places:
    directories of a site's files. plain: makes a value plain containers. served: whether the host has services of the
    cluster. others: whether a host of the inventory has a variable whose value depends on the play. of_play: names of
    the play's own variables, which the roles have before the host's. Raises NotKnown.
    """
    found: dict[str, t.Any] = {}
    for name in inventory_names(variables):
        text = texts_of(name, variables)
        if _OF_A_PLAY.search(text):
            raise NotKnown(f"{name}: its value depends on the play")
        if re.search(r"\{[{%]", text) and _OTHER_TEMPLATE.search(text):
            raise NotKnown(f"{name}: a template of the site may read anything")
        if (
            of_play
            and re.search(r"\{[{%]", text)
            and not {*of_play}.isdisjoint(_NAME.findall(text))
        ):
            raise NotKnown(f"{name}: reads a variable of the play")
        if _OF_HOSTS.search(text) and others():
            raise NotKnown(
                f"{name}: reads another host's variable, whose value may depend on the play"
            )
        try:
            found[name] = plain(template(variables[name]))
        except (AnsibleError, KeyError) as error:
            # It refers to what only a role or a task has. Its text decides for the variables of other collections.
            if _ELSEWHERE.search(text) or _is_read_here(name):
                raise NotKnown(f"{name}: its template cannot be read here") from error
            found[name] = text
    found["group_names"] = sorted(
        name for name in variables.get("group_names") or [] if str(name).startswith("slurm_")
    )
    _refuse_passing(found)
    _refuse_unrecorded(found)
    templates = [name for name in found if name.endswith("_template")] if served else _TEMPLATES
    given = [name for name in templates if found.get(name)]
    if given:
        raise NotKnown(f"{given[0]}: a template of the site may read anything")
    found["files of the site"] = [
        [file, _content(file, places)] for file in _hook_files(found.get("job_hooks_parts"))
    ]
    return found


def hook_contents(hooks: t.Mapping[str, t.Any], places: t.Sequence[str]) -> list[list[str]]:
    """Return the digests of the files of which the programs around jobs are made, wherever the inventory names them.

    hooks: job_hooks of the cluster model, which has the first controller's. Raises NotKnown.
    """
    return [[file, _content(file, places)] for file in _hook_files(hooks["parts"])]


def _refuse_passing(found: t.Mapping[str, t.Any]) -> None:
    """Raise NotKnown for files where the manifest of a host leaves them out."""
    for name, files in found.items():
        if name.endswith("_files") and isinstance(files, list):
            paths = [str(one.get("path")) for one in files if isinstance(one, dict)]
            if any(passes(posixpath.normpath(path)) for path in paths):
                raise NotKnown(f"{name}: nobody records what a boot removes")


def _refuse_unrecorded(found: t.Mapping[str, t.Any]) -> None:
    """Raise NotKnown for variables, also of one group of hosts, of which not all that roles do is recorded."""
    given = [name for name in _UNRECORDED if found.get(name)]
    if given:
        raise NotKnown(f"{given[0]}: nobody records all that it changes")


def _hook_files(parts: t.Any) -> t.Iterator[str]:
    for part in parts if isinstance(parts, list) else []:
        file = part.get("file") if isinstance(part, t.Mapping) else None
        if isinstance(file, str) and file:
            yield file


def _content(file: str, places: t.Sequence[str]) -> str:
    try:
        return hashlib.sha256(Path(site_template("", file, places)).read_bytes()).hexdigest()
    except (CustomiseError, OSError) as error:
        raise NotKnown(f"job_hooks_parts: {error}") from error
