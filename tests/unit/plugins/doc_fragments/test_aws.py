# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The options for AWS are those that amazon.aws, whose code reads them, documents."""

from __future__ import annotations

import typing as t

import pytest
import yaml
from ansible_collections.amazon.aws.plugins.doc_fragments import boto3, common, region, tags
from ansible_collections.trainwright.slurm.plugins.doc_fragments import aws

OURS = aws.ModuleDocFragment
COMMON, REGION, TAGS = common.ModuleDocFragment, region.ModuleDocFragment, tags.ModuleDocFragment


def options(*texts: str) -> dict[str, t.Any]:
    """The options of fragments without what is written for people."""
    found: dict[str, t.Any] = {}
    for text in texts:
        for name, option in yaml.safe_load(text)["options"].items():
            option.pop("description")
            if not option.get("required", True):
                del option["required"]
            found[name] = {**option, "aliases": set(option.get("aliases", []))}
    return found


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (OURS.DOCUMENTATION, [COMMON.MODULES, REGION.MODULES]),
        (OURS.PLUGINS, [COMMON.PLUGINS, REGION.PLUGINS]),
        (OURS.TAGS, [TAGS.DOCUMENTATION]),
    ],
    ids=["modules", "plugins", "tags"],
)
def test_options_are_those_of_amazon_aws(ours: str, theirs: list[str]) -> None:
    assert options(ours) == options(*theirs)


def test_the_sdk_is_as_new_as_amazon_aws_wants_it() -> None:
    theirs = yaml.safe_load(boto3.ModuleDocFragment().MODULES)["requirements"]
    ours = yaml.safe_load(OURS.DOCUMENTATION)["requirements"]
    assert set(ours) == {line for line in theirs if not line.startswith("python")}
