# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Runs modules that ask AWS against the replay server, in this process, through the real boto3."""

from __future__ import annotations

import gzip
import json
import types
import typing as t
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import botocore.loaders
import moto
import pytest
import yaml
from ansible.module_utils import _internal
from ansible.module_utils.common import warnings
from ansible.module_utils.testing import patch_module_args

from tests.fixtures.aws.server import Aws, Call, Fault, Params

REGION = "us-east-2"
ACCOUNT = "123456789012"
Run = t.Callable[..., dict[str, t.Any]]


@cache
def recorded_types() -> dict[str, t.Any]:
    """EC2's instance types by name, as moto recorded them."""
    path = Path(moto.__file__).parent / "ec2" / "resources" / "instance_types.json.gz"
    with gzip.open(path) as file:
        return t.cast("dict[str, t.Any]", json.load(file))


def serve_types(aws: Aws, size: int = 100) -> None:
    """Answer DescribeInstanceTypes as EC2 does: by name (one unknown refuses all) or by filter."""
    import fnmatch

    def answer(call: Call) -> Params:
        names = call.params.get("InstanceTypes") or []
        unknown = [name for name in names if name not in recorded_types()]
        if unknown:
            said = f"The following supplied instance types do not exist: [{', '.join(unknown)}]"
            raise Fault("InvalidInstanceType", said)
        patterns = [v for f in call.params.get("Filters", []) for v in f["Values"]]
        listed = names or [
            name
            for name in sorted(recorded_types())
            if not patterns or any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
        ]
        start = int(call.params.get("NextToken") or 0)
        page: Params = {
            "InstanceTypes": [_known(recorded_types()[n]) for n in listed[start : start + size]]
        }
        if start + size < len(listed):
            page["NextToken"] = str(start + size)
        return page

    aws.on("ec2", "DescribeInstanceTypes", answer)


@cache
def _loader() -> botocore.loaders.Loader:
    return botocore.loaders.Loader()


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Aws]:
    """The replay server; it and all clients read a service's model once, which takes a second for EC2."""
    monkeypatch.setattr("botocore.session.create_loader", lambda _path=None: _loader())
    with Aws() as aws:
        yield aws


def _known(item: dict[str, t.Any]) -> dict[str, t.Any]:
    """What the code may read of a recorded type; the rest may be newer than botocore's model."""
    keys = (
        "InstanceType", "VCpuInfo", "MemoryInfo", "ProcessorInfo", "InstanceStorageInfo", "GpuInfo", "NeuronInfo",
    )  # fmt: skip
    kept = {key: item[key] for key in keys if key in item}
    return {**kept, "NetworkInfo": {"EfaInfo": item["NetworkInfo"].get("EfaInfo", {})}}


def runner(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, aws: Aws) -> Run:
    """Return what runs a module with options and returns what it prints, all of it documented."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
    # Another test may have made this process a control node, where warnings go to the screen.
    monkeypatch.setattr(_internal, "is_controller", False)
    # The pauses between tries.
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _seconds: None)

    def run(module: types.ModuleType, **options: t.Any) -> dict[str, t.Any]:
        capsys.readouterr()
        warnings._global_warnings.clear()
        with patch_module_args(options), pytest.raises(SystemExit):
            module.main()
        printed: dict[str, t.Any] = json.loads(capsys.readouterr().out)
        returned = yaml.safe_load(module.RETURN)
        own = {"invocation", "changed", "diff", "warnings", "failed", "msg", "exception"}
        more = set(printed) - own - set(returned)
        assert not more, f"{more} is returned and not documented: {printed}"
        # Core's own form of a warning; on the control node it is read by core alone.
        printed["warnings"] = [one["event"]["msg"] for one in printed.get("warnings", [])]
        if not printed.get("failed"):
            always = {name for name, value in returned.items() if value["returned"] == "success"}
            assert always <= set(printed)
            _check(printed, returned)
        return printed

    return run


def _check(printed: dict[str, t.Any], returned: dict[str, t.Any]) -> None:
    """Dictionaries, alone, in lists or by name, have the documented keys, no more and no less."""
    for name, documented in returned.items():
        contains, value = documented.get("contains"), printed.get(name)
        if not contains or not value:
            continue
        rows = value if isinstance(value, list) else [value]
        if isinstance(value, dict) and not set(value) & set(contains):
            rows = list(value.values())
        for row in rows:
            assert set(row) == set(contains), name
