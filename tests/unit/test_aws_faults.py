# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Behind a proxy that lies: the inventory and every info module give the whole answer of AWS, or an error."""

from __future__ import annotations

import importlib
import json
import time
import types
import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleParserError
from ansible_collections.trainwright.slurm.plugins.module_utils.aws import answers, errors

from tests.fixtures.aws.instances import instance, reservation
from tests.fixtures.aws.proxy import FAULTS, FINAL, Proxy
from tests.fixtures.aws.server import Aws
from tests.unit.plugins.inventory import run as inventory
from tests.unit.plugins.modules.aws import REGION, Run, runner, serving
from tests.unit.test_aws import PCS, ROLE, RUNS, actions, fill, policy

#: A call with each protocol meets all faults, once; the others those that say most.
THOROUGH = {
    ("fsx_filesystem_info", "fsx:DescribeFileSystems"),
    ("ec2_topology_info", "ec2:DescribeInstanceTopology"),
    ("ours", "ec2:DescribeInstances"),
}
COMMON = ("portal", "cut")
#: Faults that are tried both for good and for a while.
PASSING = ("cut", "throttled", "unavailable", "drop")
#: Calls without which the answer is still whole; a warning says so.
SPARE = {"servicequotas:GetServiceQuota", "servicequotas:GetAWSDefaultServiceQuota"}
INFO = [(name, options) for name, options in RUNS if name.endswith("_info")]
#: Tries of a call, instead of 8.
TRIES = 4
#: Seconds to wait for an answer, instead of 20.
SHORT = 0.6


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Aws]:
    with serving(monkeypatch) as server:
        fill(server)
        monkeypatch.setitem(errors.RETRIES, "total_max_attempts", TRIES)
        # Not the answer of its first call only.
        server._failures.clear()
        yield server


@pytest.fixture
def proxy(aws: Aws) -> t.Iterator[Proxy]:
    with Proxy(aws) as made:
        yield made


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, aws: Aws, proxy: Proxy
) -> Run:
    made = runner(capsys, monkeypatch, aws)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
    monkeypatch.setattr(answers, "READ_TIMEOUT", SHORT)
    quick = {**answers.config(SHORT), "retries": errors.RETRIES}
    monkeypatch.setattr(answers, "config", lambda *_args: quick)
    return made


@pytest.fixture
def parse(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, proxy: Proxy
) -> t.Callable[..., inventory.Found]:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _seconds: None)

    def go(**options: t.Any) -> inventory.Found:
        with inventory.environment(**proxy.environment):
            return inventory.parse(tmp_path / "aws.yml", {"timeout": SHORT, **options})

    return go


def faults_of(who: str, action: str) -> tuple[str, ...]:
    if (who, action) not in THOROUGH:
        return COMMON
    return FAULTS if who == "ours" else tuple(one for one in FAULTS if one != "silent")


def module_of(name: str) -> types.ModuleType:
    return importlib.import_module(f"ansible_collections.trainwright.slurm.plugins.modules.{name}")


def explains(message: str, action: str) -> bool:
    """Whether a message names the call and the region, and has a remedy, on one line."""
    iam = action.replace("service-quotas", "servicequotas")
    return f"{iam} in {REGION}: " in message and " -> " in message and message.isprintable()


def test_each_call_is_known_to_have_something_in_its_answer() -> None:
    asked = {action for statement in policy("ansible") for action in actions(statement)}
    known = {
        errors.action_of(service, operation)
        for service, operations in answers.DEMANDED.items()
        for operation in operations
    }
    others = {"s3", "iam"}
    only_tags = {"fsx:TagResource", "fsx:UntagResource"}
    assert known == {one for one in asked if one.split(":")[0] not in others} - only_tags


@pytest.mark.parametrize(("name", "options"), INFO, ids=[name for name, _options in INFO])
def test_an_info_module_gives_the_whole_answer_or_an_error(
    run: Run, aws: Aws, proxy: Proxy, name: str, options: dict[str, t.Any]
) -> None:
    given = {**options, "region": REGION}
    if name == "ec2_instance_type_info":
        given["source"] = "api"
    whole = run(module_of(name), **given)
    assert not whole.get("failed"), whole
    for action in sorted({call.action for call in aws.calls}):
        for kind in faults_of(name, action):
            proxy.disturb(action, kind)
            result = run(module_of(name), **given)
            said = [result["msg"]] if result.get("failed") else result["warnings"]
            assert any(explains(line, action) for line in said), (action, kind, result)
            assert result.get("failed") or action in SPARE or result != whole, (action, kind)
            tries = 1 if kind in FINAL else answers.TRIES_WITHOUT_ANSWER
            assert proxy.disturbed >= tries, (action, kind)
            if kind in PASSING:
                proxy.disturb(action, kind, times=2)
                assert run(module_of(name), **given) == whole, (action, kind)


CLUSTERS: dict[str, dict[str, t.Any]] = {
    "ours": {
        "regions": ["all"],
        "region": REGION,
        "assume_role_arns": [ROLE],
        "cluster": "training",
    },
    "pcs": {"regions": [REGION], "pcs": PCS, "topology": False},
}


@pytest.mark.parametrize(("name", "options"), CLUSTERS.items(), ids=CLUSTERS)
def test_the_inventory_gives_the_whole_answer_or_an_error(
    parse: t.Callable[..., inventory.Found], aws: Aws, proxy: Proxy, tmp_path: Path, name: str,
    options: dict[str, t.Any],
) -> None:  # fmt: skip
    def seen(found: inventory.Found) -> t.Any:
        return [(one, found.vars(one), found.groups_of(one)) for one in found.hosts], found.all_vars

    cache = {"cache": True, "cache_plugin": "jsonfile", "cache_connection": str(tmp_path / "cache")}
    whole = seen(parse(**options))
    assert whole[0]
    for action in sorted({call.action for call in aws.calls}):
        for kind in faults_of(name, action):
            proxy.disturb(action, kind)
            with pytest.raises(AnsibleParserError) as caught:
                parse(**options, **cache)
            assert any(explains(line, action) for line in str(caught.value).splitlines()), (
                kind, caught.value
            )  # fmt: skip
            assert not list((tmp_path / "cache").iterdir()), "what is not whole is not kept"
            if kind in PASSING:
                proxy.disturb(action, kind, times=2)
                assert seen(parse(**options)) == whole, (action, kind)


def test_a_dead_region_is_named_while_it_is_waited_for_and_ends_soon(
    parse: t.Callable[..., inventory.Found],
    aws: Aws,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from ansible.utils.display import Display
    from ansible_collections.trainwright.slurm.plugins.plugin_utils import aws_fleet

    monkeypatch.setattr(aws_fleet, "_SLOW", 0.15)
    aws.on("ec2", "DescribeInstances", {"Reservations": [reservation(instance(1))]})
    proxy.disturb("ec2:DescribeInstances", "silent", region="us-west-1")
    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(Display, "warning", lambda _self, text, **_more: said.append(text))
        patch.setattr(
            inventory.mock.patch,
            "object",
            lambda *_args, **_more: inventory.contextlib.nullcontext(),
        )
        began = time.monotonic()
        with pytest.raises(AnsibleParserError, match="in us-west-1: no connection"):
            parse(regions=[REGION, "us-west-1"], cluster="train", fsx=False, topology=False)
    assert time.monotonic() - began < 3 and proxy.disturbed == answers.TRIES_WITHOUT_ANSWER
    assert "us-west-1: no answer of AWS for 0.15 s, still waiting" in said


def test_the_longest_time_that_a_dead_region_takes() -> None:
    """As the documentation of the option has it; botocore's pauses are at most 1 and 2 s."""
    settings = answers.config()
    assert (settings["connect_timeout"], settings["read_timeout"]) == (5, 20)
    assert answers.TRIES_WITHOUT_ANSWER * settings["read_timeout"] + 1 + 2 == 63
    assert answers.config(2)["connect_timeout"] == 2


def test_file_systems_that_vanish_are_an_error_where_they_are_named(
    parse: t.Callable[..., inventory.Found], aws: Aws
) -> None:
    aws.on("fsx", "DescribeFileSystems", {"FileSystems": []})
    with pytest.raises(AnsibleParserError, match=r"fs-0123 is in no region"):
        parse(regions=[REGION], cluster="training", topology=False, fsx=["fs-0123"])


def test_a_failure_is_kept_for_the_playbooks(aws: Aws, proxy: Proxy, tmp_path: Path) -> None:
    """Without any_unparsed_is_failed, Ansible goes on; this variable is all that the plays can see."""
    proxy.disturb("ec2:DescribeInstances", "forbidden")
    options = {"plugin": inventory.NAME, "regions": [REGION], "cluster": "training"}
    (tmp_path / "aws.yml").write_text(json.dumps(options), encoding="utf-8")
    (tmp_path / "hosts.yml").write_text("all: {hosts: {other: }}", encoding="utf-8")
    answer, _said = inventory.listed(tmp_path, proxy.environment, strict=False)
    variables = answer["_meta"]["hostvars"]["other"]
    assert "ec2:DescribeInstances in us-east-2" in str(variables["aws_inventory_failure"])
