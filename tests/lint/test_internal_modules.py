# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which modules are the roles' own, so that nobody can take them for an interface that stays.

Every module in the list uses the documentation fragment `internal`. One that is not in the list is
public: its options and results change only as semantic versioning allows.
"""

from __future__ import annotations

import ast
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
INTERNAL = {
    "check_report",
    "cluster_model",
    "cluster_secrets",
    "config_files",
    "database_rights",
    "deb_packages",
    "efa_installer",
    "host_wanted",
    "hosts_left",
    "image_clean",
    "nfs_exports",
    "node_bundle",
    "node_tuning",
    "nvidia_runfile",
    "package_files",
    "package_repository",
    "path_owner",
    "reboot_lock",
    "scratch_disks",
    "services",
    "shared_mounts",
    "slurm_new_nodes",
    "slurm_proof",
    "slurmctld_config",
    "support_archive",
    "support_bundle",
    "system_users",
    "verified_file",
}


def documentation(path: Path) -> dict[str, object]:
    """The DOCUMENTATION of a module, parsed."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DOCUMENTATION":
            found: dict[str, object] = yaml.safe_load(ast.literal_eval(node.value))
            return found
    raise AssertionError(f"{path.name} has no DOCUMENTATION")


def test_internal_modules_are_documented_as_internal() -> None:
    found = set()
    for path in (ROOT / "plugins" / "modules").glob("*.py"):
        fragments = documentation(path).get("extends_documentation_fragment") or []
        if "trainwright.slurm.internal" in fragments:  # type: ignore[operator]
            found.add(path.stem)
    assert found == INTERNAL


def test_internal_modules_are_in_no_action_group() -> None:
    """A group is for defaults of users."""
    runtime = yaml.safe_load((ROOT / "meta" / "runtime.yml").read_text(encoding="utf-8"))
    grouped = {name for group in runtime["action_groups"].values() for name in group}
    assert not grouped & INTERNAL


def test_readme_lists_internal_modules_apart() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    apart = text.split("<!-- internal: begin -->")[1].split("<!-- internal: end -->")[0]
    for name in INTERNAL:
        link = f"[{name}](docs/reference/{name}.md)"
        assert link in apart and text.count(link) == 1, name
