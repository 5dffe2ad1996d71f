# Copyright: the trainwright team
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which arguments each version of Pyxis has in plugstack.conf."""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "0.24.0"
OLDEST = (0, 12)
# Arguments in plugstack.conf and the version that brought them (Pyxis' git history of config.c). An argument
# that a version does not know keeps it from loading.
OPTIONS: dict[str, tuple[int, int]] = {
    "runtime_path": (0, 8),
    "execute_entrypoint": (0, 8),
    "container_scope": (0, 9),
    "sbatch_support": (0, 12),
    "use_enroot_load": (0, 21),
    "importer": (0, 21),
    "use_squashfuse": (0, 22),
}
_FLAGS = ("execute_entrypoint", "sbatch_support", "use_enroot_load", "use_squashfuse")
# container_scope: with `job`, a named container is removed when the job ends.
DEFAULTS: dict[str, t.Any] = {
    "runtime_path": "/run/pyxis",
    "execute_entrypoint": False,
    "container_scope": "global",
    "sbatch_support": True,
    "use_squashfuse": True,
    "importer": "/usr/lib/trainwright/pyxis-importer",
}


def number(version: str) -> tuple[int, int]:
    """Return the first two numbers of Pyxis' version: "0.24.0" -> (0, 24); (0, 0) where there are none."""
    match = re.match(r"v?(\d+)\.(\d+)", str(version))
    return (int(match[1]), int(match[2])) if match else (0, 0)


def problems(version: str, options: dict[str, t.Any]) -> Iterator[tuple[str, str, str]]:
    """Yield (what, why, remedy) for each mistake in pyxis_version and pyxis_options."""
    have = number(version)
    if have < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        yield (
            "pyxis_version",
            f"is {version!r}; this collection supports Pyxis {oldest} and newer",
            f'write "{VERSION}"',
        )
        return
    for name, value in options.items():
        since = OPTIONS.get(name)
        if since is None:
            yield (
                f"pyxis_options.{name}",
                "is not an argument of Pyxis, and Pyxis would not load with it",
                f"write one of {', '.join(OPTIONS)}",
            )
        elif have < since:
            brought = ".".join(map(str, since))
            yield (
                f"pyxis_options.{name}",
                f"came with Pyxis {brought}, and Pyxis {version} would not load with it",
                f"remove it, or write pyxis_version: {brought}.0 or newer",
            )
        elif name in _FLAGS and not isinstance(value, bool):
            yield f"pyxis_options.{name}", f"is {value!r}", "write true or false"
        elif name == "container_scope" and value not in ("job", "global"):
            yield f"pyxis_options.{name}", f"is {value!r}", "write job or global"
        elif name in ("runtime_path", "importer") and not re.fullmatch(r"(/[^\s]+)?", str(value)):
            yield (
                f"pyxis_options.{name}",
                f"{value!r} is not an absolute path",
                "write a path that starts with /",
            )


def arguments(version: str, options: dict[str, t.Any]) -> str:
    """Return Pyxis' arguments in plugstack.conf: our defaults as far as this version has them, then the options."""
    have = number(version)
    merged = {name: value for name, value in DEFAULTS.items() if have >= OPTIONS[name]} | options
    words = []
    for name, value in merged.items():
        if value is None or value == "":
            continue
        words.append(f"{name}={int(value) if isinstance(value, bool) else value}")
    return " ".join(words)
