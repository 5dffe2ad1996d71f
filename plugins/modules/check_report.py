#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes the results of checks as files; runs on the control node, or wherever the files are wanted."""

from __future__ import annotations

DOCUMENTATION = r"""
module: check_report
short_description: Write results of checks as a table, JSON, JUnit, CSV, Prometheus textfile and HTML
version_added: "1.0.0"
author: The trainwright team (@trainwright)
description:
  - Writes C(SUITE.txt), C(SUITE.json), C(SUITE.xml) (JUnit), C(SUITE.csv), C(SUITE.prom) (textfile of node_exporter)
    and C(SUITE.html) into a directory. C(docs/results.md) has the schema.
  - With O(document) these are the files of a validation run. Its JSON and its page also have the measurements.
  - The same results give the same files, and a file that is right already is left alone.
  - With O(state=writable), it only makes the directory, and fails where a report could not be written there.
extends_documentation_fragment: [trainwright.slurm.internal]
options:
  state:
    description:
      - V(present) writes the files. V(writable) proves that they could be written, before the checks take their time.
    type: str
    choices: [present, writable]
    default: present
  suite:
    description: What was run; the name of the files. Letters, digits, C(_) and C(-). Needed with O(results).
    type: str
  results:
    description: The results, each with C(host), C(check), C(verdict) and the other fields of the schema.
    type: list
    elements: dict
  document:
    description: The document of a validation run, whose schema is C(docs/validation.schema.json). It names its suite.
    type: dict
  directory:
    description: Directory of the files. It is created if missing; in check mode it is sought where it would be created.
    type: path
    required: true
  formats:
    description: Files to write, by the end of their name.
    type: list
    elements: str
    choices: [txt, json, xml, csv, prom, html]
    default: [txt, json, xml, csv, prom, html]
attributes:
  check_mode: {support: full, description: Writes nothing.}
  diff_mode: {support: none, description: There is nothing to show.}
"""

EXAMPLES = r"""
- name: Write what was found on two nodes
  trainwright.slurm.check_report:
    suite: preflight
    directory: /tmp/check-report
    results:
      - {host: c1, check: gpus, verdict: PASS, value: 8, threshold: 8, unit: GPUs}
      - {host: c2, check: gpus, verdict: FAIL, value: 7, threshold: 8, unit: GPUs, remedy: replace the machine}
  delegate_to: localhost
  become: false
  run_once: true

- name: Refuse a place for reports in which nothing can be written
  trainwright.slurm.check_report:
    state: writable
    directory: /tmp/validation
  delegate_to: localhost
  become: false
  run_once: true

- name: Write the files of a validation run
  trainwright.slurm.check_report:
    document: "{{ lookup('ansible.builtin.file', 'run.json') | from_json }}"
    directory: /tmp/validation
  delegate_to: localhost
  become: false
  run_once: true
"""

RETURN = r"""
files: {description: Paths of the files., type: list, elements: str, returned: with state=present}
verdict: {description: The worst verdict., type: str, returned: with state=present, sample: FAIL}
counts:
  description: Number of results by verdict.
  type: dict
  returned: with state=present
  sample: {PASS: 1, NOT_APPLICABLE: 0, WARN: 0, INCOMPLETE: 0, FAIL: 1}
"""

import errno
import functools
import os
import re
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.trainwright.slurm.plugins.module_utils.checks import result as checks
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.module_utils.report.results import RENDERERS
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import (
    document as validation,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import page

#: Bytes of the largest reports, those of some thousand nodes.
_ROOM = 16 << 20


def _prove(directory: str, look: bool) -> bool:
    """Write a file as large as a report, and remove it; return whether the directory was made. Raises OSError.

    look: whether nothing may be made; then permissions are all that is known.
    """
    there = directory
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if not os.path.isdir(there):
        raise NotADirectoryError(errno.ENOTDIR, f"{there} is not a directory")
    if look:
        if not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, f"{there} cannot be written by this user")
        return there != directory
    os.makedirs(directory, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=directory, prefix=".check_report.")
    try:
        os.posix_fallocate(handle, 0, _ROOM)
    finally:
        os.close(handle)
        os.unlink(draft)
    return there != directory


def _why(directory: str, error: OSError) -> str:
    """Return in one line why a report cannot be written."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "make room there, or name another" if full else "name a"
    return (
        f"{directory}: the report cannot be written: {error.strerror or error}"
        f" -> {remedy} directory in which you may write"
    )


def _is(path: str, text: str) -> bool:
    try:
        with open(path, encoding="utf-8", newline="") as handle:
            return handle.read() == text
    except (OSError, ValueError):
        return False


def _write(path: str, text: str) -> None:
    """Replace the file at once: node_exporter never reads half of it."""
    handle, draft = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".check_report.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except OSError:
        os.unlink(draft)
        raise


def _texts(
    suite: str | None, results: list[dict[str, t.Any]] | None, document: dict[str, t.Any] | None
) -> tuple[str, list[checks.Result], dict[str, t.Callable[[], str]]]:
    """Return the suite, the results and what makes each format. Raises ResultError."""
    if document is not None:
        run = validation.from_json(document)
        own: dict[str, t.Callable[[], str]] = {
            "json": lambda: validation.as_text(run),
            "html": lambda: page.html(run),
        }
        name, found = validation.SUITE, list(run.results)
    else:
        own, name, found = {}, suite or "", checks.from_json(results)
    shared = {end: functools.partial(make, name, found) for end, make in RENDERERS.items()}
    return name, found, {**shared, **own}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "writable"], "default": "present"},
            "suite": {"type": "str"},
            "results": {"type": "list", "elements": "dict"},
            "document": {"type": "dict"},
            "directory": {"type": "path", "required": True},
            "formats": {
                "type": "list",
                "elements": "str",
                "choices": list(RENDERERS),
                "default": list(RENDERERS),
            },
        },
        required_if=[("state", "present", ("results", "document"), True)],
        required_by={"results": ("suite",)},
        mutually_exclusive=[("results", "document"), ("suite", "document")],
        supports_check_mode=True,
    )
    given, directory = module.params["suite"], os.path.abspath(module.params["directory"])
    if not module.params["directory"].strip():
        module.fail_json(msg="directory: is empty -> name a directory in which you may write")
    if module.params["state"] == "writable":
        try:
            made = _prove(directory, module.check_mode)
        except OSError as error:
            module.fail_json(msg=printable(_why(directory, error)))
        module.exit_json(changed=made)
    if given is not None and not re.fullmatch(r"[\w-]+", given, re.ASCII):
        module.fail_json(msg=f"suite {given!r}: is not a name -> letters, digits, _ and -")
    try:
        suite, results, makers = _texts(given, module.params["results"], module.params["document"])
    except checks.ResultError as error:
        module.fail_json(msg=printable(str(error)))
    texts = {
        os.path.join(directory, f"{suite}.{name}"): makers[name]()
        for name in module.params["formats"]
    }
    wrong = {path: text for path, text in texts.items() if not _is(path, text)}
    if not module.check_mode:
        try:
            os.makedirs(directory, exist_ok=True)
            for path, text in wrong.items():
                _write(path, text)
        except OSError as error:
            module.fail_json(msg=printable(_why(directory, error)))
    module.exit_json(
        changed=bool(wrong),
        files=list(texts),
        verdict=checks.worst(results).value,
        counts=checks.counts(results),
    )


if __name__ == "__main__":
    main()
