# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Mistakes of the file itself and of its #SBATCH lines. Pure. Runs on nodes: Python 3.9."""

from __future__ import annotations

import difflib
import os
import re

from ...slurm import values
from ...slurm.batch import shell
from ...slurm.batch.options import SBATCH, SRUN
from ...slurm.batch.script import Script
from .rule import SHELL, Cluster, Found, placeholder, rule


# -- the file --------------------------------------------------------------------------------------
@rule("shebang", "error", "the first line does not name the shell, or names it with a comment")
def _shebang(script: Script, cluster: Cluster) -> Found:
    first = script.lines[0]
    if not first.startswith("#!"):
        yield (
            1,
            "the first line is not a #! line, and sbatch refuses such a script",
            "begin with #!/bin/bash",
        )
    elif re.search(r"\s#", first):
        yield (
            1,
            "the comment on the #! line goes to the shell as an argument, so that the script does not start",
            "put the comment on a line of its own",
        )


@rule("dos-line-ends", "error", "lines end as on DOS")
def _dos(script: Script, cluster: Cluster) -> Found:
    if script.dos:
        yield (
            1,
            "lines end with CR LF, and sbatch refuses such a script",
            "convert it: sed -i 's/\\r$//' FILE",
        )


@rule("comment-in-command", "error", "a comment cuts off the rest of a continued command")
def _comment(script: Script, cluster: Cluster) -> Found:
    for fault in script.faults:
        if fault.kind == "comment":
            yield (
                fault.line,
                "the comment ends the command here: the arguments below are not part of it, and the job may "
                "well exit 0 having done something else",
                "move the comment above the command; nothing may follow a backslash that continues a line",
            )


@rule("space-after-backslash", "error", "a space after a backslash ends a continued command")
def _space(script: Script, cluster: Cluster) -> Found:
    for fault in script.faults:
        if fault.kind == "space":
            yield (
                fault.line,
                "a space follows the backslash, so the line is not continued and the arguments below are lost",
                "remove the space at the end of the line",
            )


@rule("open-quote", "error", "a quote is not closed")
def _quote(script: Script, cluster: Cluster) -> Found:
    for fault in script.faults:
        if fault.kind == "quote":
            yield fault.line, "the quote that opens here is never closed", "close it"
            return


@rule("syntax", "error", "the shell refuses the script")
def _syntax(script: Script, cluster: Cluster) -> Found:
    if cluster.syntax is None or not SHELL.match(script.lines[0]):
        return
    if any(fault.kind == "quote" for fault in script.faults):
        return
    for line, why in cluster.syntax(script.text):
        line = min(line, len(script.lines))
        left = placeholder(script.lines[line - 1])
        remedy = (
            f"write your own in place of {left}"
            if left
            else "correct it; bash -n FILE shows what is left"
        )
        yield line, f"{why}: the job ends there with exit code 2, after all commands above", remedy
        return


@rule("placeholder", "warning", "a value that a template left to fill in")
def _placeholder(script: Script, cluster: Cluster) -> Found:
    for one in script.directives:
        found = placeholder(one.value)
        if found:
            yield one.line, f"--{one.name}: {found} is a placeholder", "write your own"
    read = {one.line for one in script.directives if placeholder(one.value)}
    for number in sorted({one.line for one in script.unread} - read):
        found = placeholder(script.lines[number - 1])
        if found:
            yield number, f"{found} is a placeholder", "write your own"


# -- directives ------------------------------------------------------------------------------------
@rule("directive-ignored", "error", "an #SBATCH line that sbatch does not read")
def _ignored(script: Script, cluster: Cluster) -> Found:
    for one in script.unread:
        if placeholder(script.lines[one.line - 1]):
            continue  # has a rule of its own
        if one.kind == "late":
            yield (
                one.line,
                f"{one.what} comes after the first command (line {script.body}), where sbatch stops reading",
                "move it above all commands",
            )
        elif one.kind == "indented":
            yield (
                one.line,
                "the line does not begin with #SBATCH, so sbatch takes it for a comment",
                "remove the space before it",
            )
        elif one.kind == "spelling":
            yield (
                one.line,
                f"{one.what} is not a directive, so sbatch takes the line for a comment",
                "write #SBATCH in capitals, a space, and the option",
            )


@rule("directive-wrong", "error", "an #SBATCH line that sbatch refuses")
def _wrong(script: Script, cluster: Cluster) -> Found:
    for one in script.unread:
        if placeholder(script.lines[one.line - 1]):
            continue  # has a rule of its own
        known = one.kind == "unknown" and len(one.what) > 1 and cluster.has_option
        if known and known(one.what):
            continue  # of a plugin
        if one.kind == "unknown" and one.what in _ELSEWHERE:
            yield (
                one.line,
                f"--{one.what} is an option of {_ELSEWHERE[one.what]}; sbatch refuses the script where that is missing",
                "leave it out; srun takes an image by --container-image where the cluster has Pyxis",
            )
        elif one.kind == "unknown":
            near = difflib.get_close_matches(one.what, SBATCH.known, 1, 0.6)
            remedy = f"--{near[0]} is the nearest" if near else "see man sbatch"
            if one.what in SRUN.known or one.what in SRUN.short:
                remedy = "it is one of srun: give it there"
            dashes = "-" if len(one.what) == 1 else "--"
            yield one.line, f"sbatch has no option {dashes}{one.what}", remedy
        elif one.kind == "value":
            yield one.line, f"--{one.what} has no value", "give it one"
        elif one.kind == "quote":
            yield one.line, "a quote in this line is not closed", "close it"
        elif one.kind == "words":
            yield (
                one.line,
                f"{one.what} is not an option, and sbatch reads the line only up to it",
                "write one option with its value, without spaces around =, in each line",
            )
    for directive in script.directives:
        fault = _bad_value(directive.name, directive.value)
        if fault and not placeholder(directive.value):
            yield (
                directive.line,
                f"--{directive.name}={directive.value}: {fault}",
                _FORMS[directive.name],
            )


#: Options of plugins of other sites.
_ELSEWHERE = {
    "image": "the plugin Shifter",
    "module": "the plugin Shifter",
    "volume": "the plugin Shifter",
    "environment": "the container engine of CSCS",
}

_FORMS = {
    "time": "write minutes, H:MM:SS, D-HH or D-HH:MM:SS",
    "mem": "write a number with K, M, G or T, such as 64G; 0 is all of the node",
    "mem-per-cpu": "write a number with K, M, G or T, such as 4G",
    "mem-per-gpu": "write a number with K, M, G or T, such as 100G",
    "nodes": "write a number, or MIN-MAX",
    "ntasks": "write a number",
    "ntasks-per-node": "write a number",
    "cpus-per-task": "write a number",
    "gpus": "write a number, or MODEL:NUMBER",
    "gpus-per-node": "write a number, or MODEL:NUMBER",
    "signal": "write [B:]NAME[@SECONDS], such as B:USR1@300",
}


def _bad_value(name: str, value: str | None) -> str:
    if name not in _FORMS or value is None or "$" in value:
        return ""
    patterns = {
        "nodes": r"\d+[kK]?(-\d+[kK]?)?(:\d+)?|\d+(-\d+)?(,\d+(-\d+)?)+",
        "gpus": r"([\w.-]+:)?\d+(,[\w.-]+:\d+)*",
        "gpus-per-node": r"([\w.-]+:)?\d+(,[\w.-]+:\d+)*",
        "signal": r"([BR]+:)?[A-Za-z0-9]+(@\d+)?",
    }
    try:
        if name == "time":
            values.seconds(value)
        elif name.startswith("mem"):
            values.mebibytes(value)
        elif not re.fullmatch(patterns.get(name, r"\d+"), value):
            return "is not what the option takes"
    except ValueError as error:
        return str(error)
    return ""


@rule("directive-variable", "error", "a variable in an #SBATCH line, where no shell expands it")
def _variable(script: Script, cluster: Cluster) -> Found:
    for one in script.directives:
        found = re.search(r"\$\{?\w+\}?|\$\(|`|^~", one.value or "")
        if found:
            remedy = "write the path in full" if "/" in (one.value or "") else "write the value"
            yield (
                one.line,
                f"--{one.name}: {found[0]} is not expanded; sbatch uses it literally",
                f"{remedy} (%j, %x, %u stand for job number, name and user in file names), or give the option "
                "on the command line",
            )


#: Since this release, Slurm makes the directories of a job's output itself (CHANGELOG of 23.02).
_MAKES_DIRECTORIES = (23, 2)


@rule("output-directory", "error", "the directory of the job's output is not there")
def _output(script: Script, cluster: Cluster) -> Found:
    if cluster.release is None or cluster.release >= _MAKES_DIRECTORIES:
        return
    chdir = os.path.join(cluster.workdir, script.value("chdir") or "")
    for one in script.directives:
        if one.name not in ("output", "error") or "$" in (one.value or ""):
            continue
        directory = os.path.dirname(one.value or "")
        path = os.path.normpath(os.path.join(chdir, directory)) if directory else ""
        if not path or path == "/dev" or placeholder(one.value):
            continue
        if (
            script.value("array")
            and not re.search(r"%[0-9]*[jJA]", directory)
            and "%a" in directory
        ):
            continue  # the indices of an array are known before
        made = next(
            (
                command.line
                for command in script.commands
                if command.name == "mkdir"
                and path
                in {os.path.join(chdir, shell.plain(w.text).rstrip("/")) for w in command.words}
            ),
            0,
        )
        known = cluster.directory_exists if os.path.isabs(path) else None
        lost = "the job fails at once and leaves no output that says why"
        remedy = f"make it before you submit: mkdir -p {path}"
        if re.search(r"%[0-9]*[jJAa]", directory):
            yield (
                one.line,
                f"{directory}: no directory can have the job's number before the job is there; {lost}",
                "put the number into the file's name",
            )
        elif "%" in directory or (known and known(path)):
            continue
        elif made:
            yield (
                one.line,
                f"{path} is made in line {made}, after Slurm has opened the output in it; without it {lost}",
                remedy,
            )
        elif known:
            yield one.line, f"{path} is not there: {lost}", remedy
