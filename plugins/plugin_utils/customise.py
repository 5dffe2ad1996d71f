# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A site's own settings, files and templates: checked on the control node, before a host is changed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence

from ansible.errors import AnsibleFilterError

from ..module_utils.node.terminal import NOT_IN_A_LINE
from .drop_in import unit_drop_in

_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_MODULE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_OPTION = re.compile(r'(?:[^\s"\\]|"[^"\\]*")+')
#: The parts of the file that matter to its daemon; the owner does not.
_STAMPED = ("path", "content", "content_b64", "link", "state", "block")
# systemd.unit(5), systemd.service(5); any other section is ignored with a line in the journal.
_SECTIONS = ("Unit", "Service", "Install")


class CustomiseError(ValueError):
    """A variable of the site that cannot be used; the message ends with the remedy."""


def is_path(path: object) -> bool:
    """Whether this is an absolute path in its shortest form, on one line."""
    return (
        isinstance(path, str)
        and os.path.isabs(path)
        and os.path.normpath(path) == path
        and not path.startswith("//")
        # The host would expand it, to a path that nobody compared.
        and "$" not in path
        and not NOT_IN_A_LINE.search(path)
    )


def site_files(ours: Sequence[Mapping[str, t.Any]], theirs: t.Any) -> list[Mapping[str, t.Any]]:
    """Return the role's files and the site's after them. Raises CustomiseError for a bad entry."""
    if not isinstance(theirs, Sequence) or isinstance(theirs, (str, bytes)):
        raise CustomiseError(
            f"{theirs!r} is not a list of files -> write [{{path: ..., content: ...}}]"
        )
    taken = {entry["path"]: "the role itself writes it" for entry in ours}
    for entry in theirs:
        path = entry.get("path") if isinstance(entry, Mapping) else None
        if path is None:
            raise CustomiseError(
                f"{entry!r} does not have a path -> write {{path: ..., content: ...}}"
            )
        if not is_path(path):
            raise CustomiseError(
                f"{path!r} is not an absolute path -> write it from / on, without . and .. and //"
            )
        if path in taken:
            raise CustomiseError(
                f"{path} is there twice, {taken[path]} -> take another path, or for a file of the role's "
                "own its variables _conf, _unit and _template"
            )
        taken[path] = "the list has two entries of it"
    return [*ours, *theirs]


def template_places(inventory: str | None, playbook: str | None) -> list[str]:
    """Return the directories in which a site's template is looked up.

    Ansible reads every file of an inventory that is a directory as hosts, those in group_vars excepted.
    """
    beside = [os.path.join(inventory, "group_vars"), inventory] if inventory else []
    return [*beside, playbook] if playbook else beside


def site_template(
    ours: str, theirs: t.Any, places: Iterable[str], is_file: Callable[[str], bool] = os.path.isfile
) -> str:
    """Return the site's template as an absolute path, or the role's own name where the site has none.

    places: directories in which a relative path is looked up, in this order.
    Raises CustomiseError for a template that is in none of them.
    """
    if not theirs:
        return ours
    if not isinstance(theirs, str):
        raise CustomiseError(f"{theirs!r} is not a path -> give the path of a template")
    given = os.path.expanduser(theirs)
    tried = [os.path.abspath(os.path.join(place, given)) for place in places]
    for path in dict.fromkeys(tried):
        if is_file(path):
            return path
    raise CustomiseError(
        f"{theirs}: there is no such file on the control node (looked for {', '.join(dict.fromkeys(tried))}) "
        "-> put the template into group_vars of the inventory, or give its absolute path"
    )


def files_stamp(files: Iterable[Mapping[str, t.Any]]) -> str:
    """Return a digest of the files' paths and contents (SHA-256, hex), for the stamp of a unit."""
    kept = [{key: entry[key] for key in _STAMPED if entry.get(key)} for entry in files]
    # A block is a mapping of Ansible's own kind.
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=dict).encode()).hexdigest()


def conf_lines(settings: t.Any, separator: str = "=", own: t.Any = None) -> str:
    """Return a line for each setting: {"MaxStartups": 10} as "MaxStartups=10". Null leaves one out.

    A list gives a line for each value, true and false are yes and no. own: settings that replace those of
    the same name, in any case of letters. Raises CustomiseError for a name or value that would be read as
    something else.
    """
    for given in (settings, own or {}):
        if not isinstance(given, Mapping):
            raise CustomiseError(f"{given!r} is not a set of settings -> write {{Key: value}}")
    if own:
        replaced = {str(key).lower() for key in own}
        kept = {key: value for key, value in settings.items() if str(key).lower() not in replaced}
        settings = {**kept, **own}
    lines = []
    for key, value in settings.items():
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise CustomiseError(
                f"{key!r} is not a name of a setting -> use letters, digits, . _ and -"
            )
        several = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
        for item in value if several else [] if value is None else [value]:
            text = ("yes" if item else "no") if isinstance(item, bool) else item
            if not isinstance(text, (str, int, float)):
                raise CustomiseError(f"{key}: {item!r} is not a text or a number -> give one value")
            if NOT_IN_A_LINE.search(str(text)):
                raise CustomiseError(
                    f"{key}: {text!r} has a line break or a control character -> remove it"
                )
            lines.append(f"{key}{separator}{text}\n")
    return "".join(lines)


def module_options(modules: t.Any) -> str:
    """Return a line of modprobe.d for each option: {"nvidia": {"NVreg_X": 1}} as "options nvidia NVreg_X=1".

    Null leaves out an option, or all of a module. Raises CustomiseError for a name or value that modprobe or the
    kernel would read as something else (modprobe.d(5); parse_args in the kernel, which takes blanks in double quotes).
    """
    if not isinstance(modules, Mapping):
        raise CustomiseError(
            f"{modules!r} is not a set of modules -> write {{module: {{option: value}}}}"
        )
    lines = []
    for module, options in modules.items():
        if not isinstance(options, (Mapping, type(None))):
            raise CustomiseError(
                f"{module}: {options!r} is not a set of options -> write {{option: value}}"
            )
        for name, value in (options or {}).items():
            for word in (module, name):
                if not isinstance(word, str) or not _MODULE.fullmatch(word):
                    raise CustomiseError(
                        f"{word!r} is not a name of a kernel module or of its option -> use letters, digits, _ and -"
                    )
            if value is None:
                continue
            given = int(value) if isinstance(value, bool) else value
            if not isinstance(given, (str, int, float)):
                raise CustomiseError(
                    f"{module} {name}: {value!r} is not a text or a number -> give one value"
                )
            if NOT_IN_A_LINE.search(str(given)) or not _OPTION.fullmatch(str(given)):
                raise CustomiseError(
                    f"{module} {name}: {given!r} would not be one value"
                    " -> write one word, or put blanks in double quotes"
                )
            lines.append(f"options {module} {name}={given}\n")
    return "".join(lines)


def conf_server(controllers: Sequence[t.Any], port: int) -> str:
    """Return the value of --conf-server, such as ctl1:6817,ctl2:6817, for slurmd and sackd.

    controllers: entries with a name, or texts HOST or HOST:PORT; port: for those without one.
    """
    found = []
    for entry in controllers:
        text = entry["name"] if isinstance(entry, Mapping) else str(entry)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*(:\d{1,5})?", text):
            raise CustomiseError(f"{text!r} is not a controller -> write HOST or HOST:PORT")
        found.append(text if ":" in text else f"{text}:{port}")
    if not found:
        raise CustomiseError("there is no controller -> name at least one, as HOST or HOST:PORT")
    return ",".join(found)


#: How roles write the settings of a variable. Those of Slurm's files have checks of their own.
_WRITERS: dict[str, Callable[[t.Any], str]] = {
    "efa_conf": lambda options: module_options({"efa": options}),
    "gdrcopy_conf": lambda options: module_options({"gdrdrv": options}),
    "nccl_conf": conf_lines,
    "nvidia_container_conf": conf_lines,
    "nvidia_driver_conf": module_options,
    "rdma_core_conf": module_options,
}


def problems(
    variables: Mapping[str, t.Any],
    places: Sequence[str],
    is_file: Callable[[str], bool] = os.path.isfile,
) -> list[tuple[str, str]]:
    """Return what is wrong with the extension points among the variables, as (variable, what -> remedy).

    variables: what is given for <role>_unit, <role>_files, <role>_template and the <role>_conf of _WRITERS, by name;
    other names are left alone. A file that a role also writes itself is found later, by the role.
    """
    found = []
    for name, value in variables.items():
        try:
            if name.endswith("_unit"):
                _check_unit(value)
            elif name.endswith("_files"):
                site_files([], value)
            elif name.endswith("_template"):
                site_template("", value, places, is_file)
            elif name in _WRITERS:
                _WRITERS[name](value)
        except (CustomiseError, AnsibleFilterError) as error:
            found.append((name, str(error)))
    return found


def _check_unit(sections: t.Any) -> None:
    unit_drop_in(sections)
    for section in sections:
        if section not in _SECTIONS and not section.startswith("X-"):
            raise CustomiseError(
                f"[{section}] is not a section of a service -> use one of {', '.join(_SECTIONS)}"
            )
