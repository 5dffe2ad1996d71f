# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Values of the GPU and EFA software that become a word of a file, an option of an installer or a path. Pure.

Their types are those of the argument specs, which preflight checks with those of all roles.
"""

from __future__ import annotations

import re
import typing as t

from . import efa

#: Variable, what is wrong, what to write instead.
Fault = tuple[str, str, str]
Values = t.Mapping[str, t.Any]
#: Options of EFA's installer that leave out NCCL's plugin.
WITHOUT_PLUGIN = ("--skip-plugin", "--minimal", "-m")
FINGERPRINT = re.compile(r"(?:[0-9A-F]{4} *){10}", re.IGNORECASE)
_SHA256 = re.compile(r"[0-9A-F]{64}", re.IGNORECASE)
_URL = re.compile(r"(https?|file)://[^\s\"'\\]+|file:/[^\s\"'\\]+")
_PATH = re.compile(r"/[A-Za-z0-9/._@+-]*")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+(:[a-z0-9-]+)?")
# An argument of a program that is started without a shell.
_ARGUMENT = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
# Old releases of the plugin have -aws behind it.
_NUMBERS = re.compile(r"\d+(\.\d+)+(-aws)?")


def _text(pattern: re.Pattern[str], what: str, remedy: str, empty: bool = False) -> t.Any:
    """Return a check of one text."""

    def check(name: str, value: t.Any) -> t.Iterator[Fault]:
        text = str(value)
        if not (pattern.fullmatch(text) or (empty and not text)):
            yield name, f"{text!r} {what}", remedy

    return check


def _each(pattern: re.Pattern[str], what: str, remedy: str) -> t.Any:
    """Return a check of the texts of a list."""

    def check(name: str, value: t.Any) -> t.Iterator[Fault]:
        for item in value or ():
            if not pattern.fullmatch(str(item)):
                yield name, f"{str(item)!r} {what}", remedy

    return check


def _between(least: int, most: int, what: str) -> t.Any:
    def check(name: str, value: t.Any) -> t.Iterator[Fault]:
        # Another type has a check of its own.
        if re.fullmatch(r"-?\d+", str(value)) and not least <= int(value) <= most:
            yield name, f"{value} is not a number of {what}", f"write one from {least} to {most}"

    return check


_SUM = _text(
    _SHA256, "is not a SHA-256", "write the 64 hexadecimal digits that sha256sum prints", True
)
_DIRECTORY = "is not the path of a directory"
_ABSOLUTE = "write an absolute path of letters, digits and ._@+-"
_CHECKS: dict[str, t.Callable[[str, t.Any], t.Iterator[Fault]]] = {
    "aws_ofi_nccl_configure": _each(_ARGUMENT, "is not one argument", "write each argument on one line"),
    "aws_ofi_nccl_cuda": _text(_PATH, _DIRECTORY, f"{_ABSOLUTE}, or nothing to build without CUDA", True),
    "aws_ofi_nccl_libfabric": _text(_PATH, _DIRECTORY, _ABSOLUTE),
    "aws_ofi_nccl_sha256": _SUM,
    "aws_ofi_nccl_version": _text(_NUMBERS, "is not a version", "write one such as 1.19.0"),
    "efa_devices": _between(0, 1024, "devices"),
    "efa_key_url": _text(_URL, "is not a URL", "write https://HOST/PATH"),
    "efa_sha256": _SUM,
    "efa_timeout": _between(1, 86400, "seconds"),
    "efa_version": _text(_NUMBERS, "is not a version of the installer", "write one such as 1.47.0"),
    "nvidia_driver_packages": _each(
        _PACKAGE, "is not the name of a package", "write names alone; gpu_stack_versions (driver) has the version"
    ),
    "nvidia_driver_runfile_timeout": _between(60, 86400, "seconds"),
}  # fmt: skip
#: The variables that are checked here.
NAMES = (*_CHECKS, "efa_installer_options", "efa_key_fingerprint", "efa_signature", "aws_ofi_nccl_source")  # fmt: skip


def key_fault(values: Values) -> t.Iterator[Fault]:
    """Yield why the signature of EFA's installer could not be verified by the key that is named."""
    if values.get("efa_signature") == "never" or values.get("efa_key_fingerprint") is None:
        return
    given = str(values["efa_key_fingerprint"]).strip()
    if not FINGERPRINT.fullmatch(given):
        what = (
            "is empty, so that any key would do"
            if not given
            else "is not the 40 hexadecimal digits of a key"
        )
        remedy = "write that of AWS, which is the default, or efa_signature: never with a checksum"
        yield "efa_key_fingerprint", what, remedy


def faults(values: Values, container: bool = False) -> t.Iterator[Fault]:
    """Yield what is wrong with the values of a host, or of the cluster, by the names of their variables.

    values: may lack some of NAMES, which are not looked at then. container: whether EFA's installer runs in one.
    """
    for name, check in _CHECKS.items():
        if values.get(name) is not None:
            yield from check(name, values[name])
    yield from key_fault(values)
    options = [str(option) for option in values.get("efa_installer_options") or ()]
    for fault in efa.bad_options(options, container):
        what, _middle, remedy = fault.partition(". Remedy: ")
        yield "efa_installer_options", what, remedy


def plugin_left_out(values: Values) -> t.Iterator[Fault]:
    """Yield which options leave a host with GPUs and EFA without NCCL's plugin, which no other part brings."""
    if values.get("aws_ofi_nccl_source", "bundled") != "bundled":
        return
    for option in values.get("efa_installer_options") or ():
        if str(option) in WITHOUT_PLUGIN:
            yield (
                "efa_installer_options",
                f"{option} leaves out NCCL's plugin for libfabric, and aws_ofi_nccl_source is bundled: jobs would use"
                " TCP instead of EFA, without an error",
                f"leave {option} out, or write aws_ofi_nccl_source: build",
            )
