# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What the tests of slurm_node, slurm_partition and slurm_reservation share."""

from __future__ import annotations

import json
import types
import typing as t

import pytest
import yaml
from ansible.module_utils import _internal
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import (
    module as slurm_module,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import session

from ..module_utils.slurm.client.fake_control import FakeControl

_KEYS = ("type", "elements", "default", "choices", "required")


def check_documentation(module: types.ModuleType) -> None:
    """Every option is documented as it is, and every example is taken."""
    documented = yaml.safe_load(module.DOCUMENTATION)["options"]
    shown = {
        name: {key: option[key] for key in _KEYS if key in option}
        for name, option in documented.items()
    }
    spec = {
        name: {key: option[key] for key in _KEYS if key in option}
        for name, option in module.SPEC.items()
    }
    assert shown == spec
    name = module.__name__.rpartition(".")[2]
    examples = yaml.safe_load(module.EXAMPLES)
    assert len({example["name"] for example in examples}) == len(examples) > 1
    validator = ArgumentSpecValidator(slurm_module.arguments(**module.SPEC))
    for example in examples:
        given = example[f"trainwright.slurm.{name}"]
        assert not validator.validate(given).error_messages, example["name"]


def run(
    module: types.ModuleType,
    control: FakeControl,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    **options: t.Any,
) -> dict[str, t.Any]:
    """Run the module with options against a fake, and return what it prints."""
    monkeypatch.setattr(session.Session, "using", lambda *_names: control)
    # Another test may have made this process a control node, where warnings go to the screen.
    monkeypatch.setattr(_internal, "is_controller", False)
    with patch_module_args(options), pytest.raises(SystemExit):
        module.main()
    printed: dict[str, t.Any] = json.loads(capsys.readouterr().out)
    returned = yaml.safe_load(module.RETURN)
    own = {"invocation", "changed", "diff", "warnings", "failed", "msg", "exception"}
    assert set(printed) - own <= set(returned), "what is returned is documented"
    if not printed.get("failed"):
        always = {name for name, value in returned.items() if value["returned"] == "success"}
        assert always <= set(printed)
    return printed
