# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Why Enroot failed, in one line. Runs on nodes: Python 3.9."""

from __future__ import annotations

import os
import re
import typing as t

from ..node.acting import user_name
from .enroot import enroot_settings
from .image_errors import ImageError, free_space, human, no_space
from .registry import Registry, login_line, parse

_FULL = re.compile("No space left on device|Disk quota exceeded")


class Disks:
    """The storage that an import writes to, and how little of each was free; after a failure Enroot cleans up."""

    def __init__(self, store: str, settings: t.Mapping[str, str]) -> None:
        self.store = store
        self.cache = settings.get("ENROOT_CACHE_PATH", "")
        self.temp = settings.get("ENROOT_TEMP_PATH", "")
        self._least: dict[str, int] = {}

    def look(self) -> None:
        """Note what is free now."""
        for path in filter(None, (self.store, self.cache, self.temp)):
            try:
                free = free_space(path)[0]
            except OSError:
                continue
            self._least[path] = min(free, self._least.get(path, free))

    def _full(self, output: str) -> list[str]:
        """Return the paths of the full storage: the one that an error names, or what had least left."""
        errors = [line for line in output.splitlines() if _FULL.search(line)]
        named = [path for path in self._least if any(f"{path}/" in line for line in errors)]
        if named:
            return named
        least = min(self._least, key=lambda path: self._least[path])
        device = os.stat(least).st_dev
        return [path for path in self._least if os.stat(path).st_dev == device]

    def error(self, reference: str, output: str) -> ImageError | None:
        """Return which storage was full; None where none was."""
        found = _FULL.search(output)
        if not found or not self._least:
            return None
        why = f"{found[0]} for {reference}"
        full = self._full(output)
        if self.store in full:
            return no_space(self.store, why, free=self._least[self.store])
        remedies = []
        if self.cache in full:
            remedies.append(
                f"empty the cache (`rm -r {self.cache}/*`; its layers are loaded again)"
            )
        if self.temp in full:
            remedies.append(f"remove what nobody needs on the disk of {self.temp}")
        size = free_space(full[0])[1]
        least = min(self._least[path] for path in full)
        return ImageError(
            "space",
            f"{' and '.join(full)}: {why}, where Enroot works; {human(least)} of {human(size)} were free there -> "
            f"{', '.join(remedies)}, or have Enroot use larger storage (enroot_storage)",
        )


def _from_output(reference: str, output: str) -> ImageError:
    """Return what Enroot's output means; its last error is reported where nothing fits."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("[ERROR]", "curl:", "FATAL ERROR"))]
    said = (errors or lines or ["it printed nothing"])[-1].replace("[ERROR] ", "")
    code = re.search(r"returned error code: (\d+)", output)
    name = parse(reference)
    if code and code[1] in ("401", "403"):
        place = enroot_settings().get("ENROOT_CONFIG_PATH", "~/.config/enroot") + "/.credentials"
        return ImageError(
            "credentials",
            f"{reference}: {name.registry} refuses {user_name(os.geteuid())} ({said}) -> check the name; if "
            f"the image is private, write the line `{login_line(name.host)}` into {place}, mode 0600",
        )
    if code and code[1] == "404" or "Invalid image reference" in output:
        return ImageError(
            "reference",
            f"{reference}: {name.registry} does not have this image ({said}) -> check registry, name and tag; the form "
            "is docker://REGISTRY/NAME:TAG",
        )
    if re.search(r"curl: \((?:5|6|7|28|35|52|56|60)\)|returned error code: (?:429|5\d\d)", output):
        return ImageError(
            "network",
            f"{reference}: {name.registry} cannot be reached ({said}) -> check the network, the proxy (https_proxy) "
            "and the certificates of this host, then run it again",
        )
    missing = re.search(r"Command not found: (\S+)", output)
    if missing:
        return ImageError("missing", f"enroot needs {missing[1]} -> role enroot installs it")
    return ImageError(
        "failed", f"{reference}: enroot failed: {said} -> see `enroot import` by hand"
    )


def refusal(reference: str, output: str, disks: Disks | None = None) -> ImageError:
    """Return why Enroot failed: what its output says, or else what the registry answers."""
    full = disks.error(reference, output) if disks else None
    if full:
        return full
    found = _from_output(reference, output)
    asks = found.kind in ("failed", "reference", "credentials")
    if asks and reference.startswith("docker://") and "Invalid image reference" not in output:
        asked = Registry(parse(reference), enroot_settings()).explain()
        if asked and (found.kind == "failed" or asked.kind != "network"):
            return asked
    return found
