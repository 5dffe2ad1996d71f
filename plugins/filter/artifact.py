# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One download of the artifact table: its address, its checksum, and who vouches for it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: artifact
short_description: Look up a download with its checksum
version_added: "0.1.0"
author: The trainwright team (@trainwright)
description:
  - Looks up an entry in a table of artifacts, and returns the source of its file and which SHA-256
    it must have.
  - Fails without a known checksum, so nothing is downloaded unverified.
positional: name
options:
  _input:
    description:
      - The table, a list of entries with C(name), C(version), C(url), C(sha256) and C(source).
      - C({version}) in a C(url) is replaced; an entry without a version has the address for versions that
        are not in the table.
    type: list
    elements: dict
    required: true
  name:
    description: Name of the artifact.
    type: str
    required: true
  version:
    description:
      - Full version (V(24.11.5)) or its beginning (V(24.11)), which means the newest such version in the table.
    type: str
    required: true
  url:
    description: Alternative address of the file.
    type: str
    default: ""
  sha256:
    description:
      - The checksum to verify the file with, instead of the table's; or checksums by the base names of files.
    type: raw
    default: ""
  arch:
    description: Value of C({arch}) in the address.
    type: str
    default: ""
  mirror:
    description: Directory on the control node, or URL, that has the file by its base name.
    type: str
    default: ""
  stand_in:
    description:
      - Directory on the control node with files and a C(SHA256SUMS) of its own, which replaces the
        checksums of the table.
    type: str
    default: ""
  option:
    description: Name of the variable that gives a checksum, for the error message.
    type: str
    default: sha256
  signed:
    description: The caller verifies the signature of the file, so the checksum may be missing.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Show where Slurm's source comes from
  ansible.builtin.debug:
    msg: "{{ table | trainwright.slurm.artifact('slurm', '24.11') }}"
  vars:
    table:
      - name: slurm
        version: 24.11.5
        url: https://github.com/SchedMD/slurm/archive/slurm-24-11-5-1.tar.gz
        sha256: e1a5547edd212c38b5e3230a284133f777b32746551f094aaa81cc4af375e332
        source: aws-parallelcluster-cookbook
"""

RETURN = r"""
_value:
  description: >-
    C(version); C(file), the base name; C(cached), its name in the control node's cache; C(url), its address
    in this run; C(sha256), empty only with O(signed); C(source), the source of the checksum.
  type: dict
"""

import re
import typing as t
from pathlib import Path

from ansible.errors import AnsibleFilterError


def number(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, for comparing: "24.11.5" -> (24, 11, 5)."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def newest(table: list[dict[str, t.Any]], name: str, version: str) -> str:
    """Return the newest version in the table that begins with `version`; itself when it is whole."""
    known = [str(row["version"]) for row in table if row["name"] == name and row.get("version")]
    if version in known or len(number(version)) > 2:
        return version
    fitting = [item for item in known if item.startswith(f"{version}.")]
    if not fitting:
        raise AnsibleFilterError(
            f"{name} {version or '(no version)'}: is not in the table, which has {', '.join(known)}"
            f" -> give the full version, such as {known[-1] if known else '1.2.3'}"
        )
    return max(fitting, key=number)


def sums(directory: str) -> dict[str, str]:
    """Return the checksums of a directory's SHA256SUMS by base name."""
    path = Path(directory) / "SHA256SUMS"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise AnsibleFilterError(
            f"{path}: {error.strerror} -> create it: cd {directory} && sha256sum * > SHA256SUMS"
        ) from error
    lines = re.findall(r"^([0-9a-fA-F]{64}) [ *](.+)$", text, re.MULTILINE)
    return {Path(found).name: value.lower() for value, found in lines}


def artifact(
    table: list[dict[str, t.Any]],
    name: str,
    version: str,
    url: str = "",
    sha256: str | dict[str, str] = "",
    mirror: str = "",
    stand_in: str = "",
    option: str = "sha256",
    arch: str = "",
    signed: bool = False,
) -> dict[str, str]:
    """Return version, file, url, sha256 and source; raise without a checksum where none is `signed`."""
    version = newest(table, name, str(version))
    rows = [row for row in table if row["name"] == name]
    row = next((row for row in rows if str(row.get("version")) == version), {})
    default = next((row for row in rows if not row.get("version")), {})
    address = url or row.get("url") or default.get("url") or ""
    address = address.replace("{version}", version).replace("{arch}", arch)
    file = address.rpartition("/")[2]
    given = (sha256.get(file) or "") if isinstance(sha256, dict) else sha256
    own = {} if url and url != row.get("url") else row
    checksum, source = given or own.get("sha256") or "", own.get("source") or ""
    if given:
        source = f"the variable {option}"
    if stand_in:
        checksum, source = sums(stand_in).get(file, ""), f"{stand_in}/SHA256SUMS"
    if not re.fullmatch(r"[0-9a-f]{64}", checksum.lower()) and (checksum or not signed):
        where = (
            f"{stand_in}/SHA256SUMS does not have one for {file}"
            if stand_in
            else "none is known here"
        )
        wanted = f"{option}: {{{file}: ...}}" if isinstance(sha256, dict) else option
        publisher = own.get("source") or default.get("source") or ""
        raise AnsibleFilterError(
            f"{name} {version}: does not have a SHA-256 to verify {address or 'the file'} with ({where})"
            f" -> set {wanted} to the output of `sha256sum {file}` for a file that you trust"
            f"{f' (publisher: {publisher})' if publisher else ''}"
        )
    place = stand_in or mirror
    if place:
        place = place if "://" in place else Path(place).expanduser().resolve().as_uri()
        address = f"{place.rstrip('/')}/{file}"
    return {
        "version": version,
        "file": file,
        "cached": f"{checksum.lower()[:12] or 'signed'}-{file}",
        "url": address,
        "sha256": checksum.lower(),
        "source": source,
    }


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, t.Any]:
        return {"artifact": artifact, "artifact_version": newest}
