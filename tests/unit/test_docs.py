# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""README.md and docs/: what they name exists, what they link to is there, their examples are taken.

Pages that docs/generate.py writes are held by test_documentation.py.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks import (
    database,
    shape,
    slurm,
    storage,
    users,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting.state import (
    wanted_from,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.conf import parameters

from tests.unit import examples
from tests.unit.cluster import DEFAULTS, SUPPORTED_OS, inputs
from tests.unit.test_role_shapes import STACK

ROOT = Path(__file__).resolve().parents[2]
ANSIBLE = Path(sys.executable).parent / "ansible-playbook"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
GUIDES = [page for page in PAGES if page.parent.name == "docs"]
GROUPS = {
    f"slurm_{name}"
    for name in (
        "cluster controller database login compute rest build pyxis oci job_hooks node_health nfs_server image gpu"
    ).split()
}
# Names that begin like a variable and are none: the model's, what Slurm and a vault call their things.
OTHER_NAMES = {"slurm_model", "slurm_acct_db", "slurm_conf_data", "vault_slurm_database_password"}
# Not the role efa's: AWS' program, and a key of slurm_machine_types.
OTHER_NAMES |= {"efa_installer.sh", "efa_interfaces"}
# Checks of the role validate whose names begin with that of another role.
OTHER_NAMES |= {"nccl_mpirun", "nccl_srun", "nccl_pyxis", "nccl_ngc"}
# Variables that remove_nodes.yml and accounts.yml need on the command line.
ASKED = {"nodes", "confirm", "accounting", "accounts_host", "accounts_become"}
# Checks of preflight that judge variables alone, without the hosts of an inventory.
CHECKS = (
    *(shape.variables, shape.host_variables, slurm.options, slurm.line_options, users.users),
    *(storage.mounts, database.external_database, slurm.numbers, slurm.paths),
)


def ids(page: Path) -> str:
    return page.name


def blocks(page: Path, *languages: str) -> Iterator[str]:
    """The fenced blocks of a page in one of the languages."""
    for language, text in re.findall(
        r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S
    ):
        if language in languages:
            yield text


def prose(page: Path) -> str:
    """A page without its fenced blocks, and without DeepOps' side of the tables of deepops.md."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    if page.name == "deepops.md":
        text = re.sub(r"^\| .*? \|", "|", text, flags=re.M)
        text = "\n".join(line for line in text.splitlines() if "_ha_state" not in line)
    return text


def code(page: Path) -> list[str]:
    """The text of a page in backticks."""
    return re.findall(r"`([^`\n]+)`", prose(page))


def commands(page: Path) -> Iterator[str]:
    """Each command line of a page, in blocks and in backticks."""
    for block in blocks(page, "bash"):
        yield from block.replace("\\\n", " ").splitlines()
    yield from code(page)


def specs() -> Iterator[dict[str, Any]]:
    for path in (ROOT / "roles").glob("*/meta/argument_specs.yml"):
        for spec in yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"].values():
            yield spec.get("options") or {}


@cache
def variables() -> frozenset[str]:
    """Every public variable: of roles, of playbooks, and what roles read where it is there."""
    found = set(ASKED) | set(DEFAULTS)
    for options in specs():
        found |= set(options)
        for name, option in options.items():
            found |= {f"{name}.{key}" for key in option.get("options") or {}}
    for path in (ROOT / "roles").glob("*/defaults/main.yml"):
        found |= set(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    for path in (ROOT / "playbooks").glob("*.yml"):
        for play in yaml.safe_load(path.read_text(encoding="utf-8")):
            found |= set(play.get("vars") or {})
    for path in [*(ROOT / "roles").rglob("*.yml"), *(ROOT / "roles").rglob("*.j2")]:
        found |= set(re.findall(r"\b([a-z]\w+) \| default\(", path.read_text(encoding="utf-8")))
    return frozenset(name for name in found if not name.startswith("_"))


@cache
def plugins() -> frozenset[str]:
    """Names of roles, modules, other plugins and playbooks."""
    found = {path.parent.name for path in (ROOT / "roles").glob("*/tasks")}
    found |= {path.stem for end in ("py", "yml") for path in (ROOT / "plugins").rglob(f"*.{end}")}
    return frozenset(found | {path.stem for path in (ROOT / "playbooks").glob("*.yml")})


@cache
def options() -> frozenset[str]:
    """Names of the options of all modules."""
    return frozenset(
        name for one in examples.MODULES for name in examples.spec_of(one)["argument_spec"]
    )


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    plain = [re.sub(r"[^\w\- ]", "", title.lower().replace("`", "")) for title in titles]
    return {title.strip().replace(" ", "-") for title in plain}


@pytest.mark.parametrize(
    "page",
    [*PAGES, *sorted(ROOT.glob("roles/*/README.md"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_resolve(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        assert to.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(to), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_make_targets_and_their_variables_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in commands(page):
        if not line.startswith("make "):
            continue
        words = shlex.split(line, comments=True)
        assert re.search(rf"^{re.escape(words[1])}:", makefile, re.M), f"{page.name}: {line}"
        for word in words[2:]:
            name = word.partition("=")[0]
            assert f"$({name})" in makefile, f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_playbooks_and_their_variables_exist(page: Path) -> None:
    for line in commands(page):
        if "ansible-playbook -i" not in line:
            continue
        words = shlex.split(line)
        given = [word for word in words if word.endswith(".yml") or "trainwright.slurm." in word]
        for word in given:
            name = word.rpartition("=")[2].lstrip("@").replace("trainwright.slurm.", "playbooks/")
            name = name if name.endswith(".yml") else f"{name}.yml"
            assert (ROOT / name).is_file(), f"{page.name}: {line}"
        for option, value in zip(words, words[1:]):
            if option == "-e" and value.startswith("@"):
                assert (ROOT / value[1:]).is_file(), f"{page.name}: {line}"
            elif option == "-e":
                assert value.split("=")[0] in variables(), f"{page.name}: {line}"


def test_playbooks_are_called_by_their_names() -> None:
    """A name works wherever the collection is installed, a path only in the clone; README explains both."""
    headers = [*(ROOT / "playbooks").glob("*.yml"), *(ROOT / "recipes").rglob("job.yml")]
    lines = [line for page in PAGES for line in commands(page)]
    lines += [line for path in headers for line in path.read_text(encoding="utf-8").splitlines()]
    assert not [line for line in lines if "ansible-playbook -i" in line and "playbooks/" in line]


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_commands_of_the_local_cluster_exist(page: Path) -> None:
    main = (ROOT / "molecule" / "driver" / "__main__.py").read_text(encoding="utf-8")
    for line in commands(page):
        for name in re.findall(r"molecule/driver ([\w-]+)", line):
            assert f'"{name}"' in main, f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_paths_exist(page: Path) -> None:
    tops = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    for text in [
        *code(page),
        *re.findall(r"(?<=\s)[\w./]+(?=\s)", "\n".join(blocks(page, "bash"))),
    ]:
        path = text.strip("/").partition(":")[0]
        if path.split("/")[0] in tops - {"dist"} and "/" in path and " " not in path:
            assert (ROOT / path).exists(), f"{page.name}: {text}"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_variables_in_backticks_exist(page: Path) -> None:
    prefixes = sorted({path.parent.name for path in (ROOT / "roles").glob("*/tasks")})
    pattern = rf"(?:{'|'.join([*prefixes, 'cluster', 'proxy', 'node', 'first_job'])})_[a-z0-9_.]+"
    known = variables() | plugins() | options() | GROUPS | OTHER_NAMES
    for text in code(page):
        name = re.match(r"[\w.]*", text)[0].rstrip(".")  # type: ignore[index]
        if re.fullmatch(pattern, name) and not name.endswith((".yml", ".py", ".conf")):
            assert name in known, f"{page.name}: {text}"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_names_of_this_collection_exist(page: Path) -> None:
    for name in re.findall(
        r"trainwright\.slurm\.([a-z][a-z0-9_]*)", page.read_text(encoding="utf-8")
    ):
        assert name in plugins(), f"{page.name}: {name}"


def literals(value: Any) -> Any:
    """The value without the keys of mappings whose value a lookup returns."""
    if not isinstance(value, dict):
        return value
    return {key: literals(item) for key, item in value.items() if "lookup(" not in str(item)}


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_examples_are_taken_by_preflight(page: Path) -> None:
    """Every YAML example is variables with the right types and keys, an inventory, or plays."""
    for block in blocks(page, "yaml"):
        # A key is shortened in print.
        example = yaml.safe_load(block.replace("AAAA... ", "AAAA "))
        if isinstance(example, list):
            continue  # plays and tasks are held by the tests below
        assert isinstance(example, dict), block
        if set(example) <= {"all", "slurm_cluster"}:
            assert set(re.findall(r"^\s+(slurm_\w+):$", block, re.M)) <= GROUPS | {"slurm_foreign"}
            continue
        assert set(example) <= variables(), f"{page.name}: {set(example) - variables()}"
        wanted_from(example.pop("accounting", {}))
        node = example.pop("slurm_node", None)
        given = inputs(2, **{n: literals(v) for n, v in example.items() if n in DEFAULTS})
        if node:
            given["host_vars"]["c1"] = {"slurm_node": node}
        assert not [str(problem) for check in CHECKS for problem in check(given)], block


def plays(page: Path) -> list[str]:
    """The plays among the YAML examples of a page; tasks in a play of their own."""
    found = []
    for text in blocks(page, "yaml"):
        example = yaml.safe_load(text)
        if isinstance(example, list) and "hosts" not in example[0]:
            text = yaml.safe_dump([{"name": "Tasks", "hosts": "ctl1", "tasks": example}])
        found += [text] if isinstance(example, list) else []
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if plays(page)], ids=ids)
def test_plays_have_the_options_of_the_modules(page: Path) -> None:
    for text in plays(page):
        for play in yaml.safe_load(text):
            group = play.get("module_defaults", {}).get("group/trainwright.slurm.slurm", {})
            for task in examples.tasks(yaml.safe_dump(play["tasks"])):
                assert not examples.problems(task, group), f"{page.name}: {task['name']}"


@pytest.mark.parametrize("page", [page for page in PAGES if plays(page)], ids=ids)
def test_plays_are_taken_by_ansible(page: Path, tmp_path: Path) -> None:
    """Those about localhost that call no module of ours, but perhaps filters, are run as well."""
    parsed, run = [], []
    for number, text in enumerate(plays(page)):
        path = tmp_path / f"{number}.yml"
        path.write_text(text, encoding="utf-8")
        calls = re.search(r"^\s+(?:- )?trainwright\.slurm\.\w+:", text, re.M)
        (run if "hosts: localhost" in text and not calls else parsed).append(str(path))
    for paths, more in ((parsed, ["--syntax-check"]), (run, [])):
        done = subprocess.run(
            [str(ANSIBLE), "-i", "localhost,", "-c", "local", *more, *paths],
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(ROOT / "tests/unit/ansible.cfg"),
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not paths or done.returncode == 0, f"{page.name}: {done.stdout}{done.stderr}"


def test_readme_has_every_role_playbook_plugin_and_guide() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    wanted = [f"roles/{path.parent.name}/README.md" for path in ROOT.glob("roles/*/tasks")]
    wanted += [f"playbooks/{path.name}" for path in ROOT.glob("playbooks/*.yml")]
    wanted += [f"docs/{page.name}" for page in GUIDES]
    assert not [path for path in wanted if f"]({path})" not in text]


def test_readme_has_the_supported_systems() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.endswith("run by our CI |")]
    for system, name in (("debian", "Debian"), ("ubuntu", "Ubuntu"), ("rhel", "RHEL")):
        for release, entry in SUPPORTED_OS[system].items():
            row = [line for line in rows if f"{name} {release}" in line]
            assert row and f"| {entry['slurm']}" in row[0], (name, release)
    run = {line.split("|")[1].strip() for line in rows if "| run by our CI" in line}
    scenarios = {
        yaml.safe_load(path.read_text(encoding="utf-8"))["cluster"]["os"]
        for path in (ROOT / "molecule").glob("*/vars/cluster.yml")
    }
    assert {name.lower().replace(" ", "") for name in run} == scenarios


#: What the roles of the GPU and EFA software set up, in the words of a reader.
ON_HARDWARE = {
    "nvidia_driver": ("NVIDIA driver", "Fabric Manager", "nvlsm", "IMEX", "`.run`", "Secure Boot"),
    "cuda_toolkit": ("CUDA",),
    "nvidia_dcgm": ("DCGM",),
    "nvidia_container": ("`nvidia-ctk`", "CDI"),
    "gdrcopy": ("GDRCopy",),
    "nccl": ("NCCL",),
    "nccl_tests": ("nccl-tests",),
    "efa": ("EFA's installer",),
    "aws_ofi_nccl": ("NCCL plugin",),
    "openmpi": ("Open MPI",),
    "rdma_core": ("InfiniBand", "RoCE"),
}


def test_readme_names_what_met_no_hardware() -> None:
    """Until somebody has tried it: each part of the GPU and EFA software by name."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = text.partition("These parts have met no GPU and no EFA yet")[2].partition("\n## ")[0]
    assert set(ON_HARDWARE) == STACK - {"gpu_stack"}
    lacking = {role: [w for w in words if w not in listed] for role, words in ON_HARDWARE.items()}
    assert not any(lacking.values()), lacking


@cache
def sources() -> str:
    """All messages of the collection, as one text: literals over several lines are joined."""
    texts = []
    for top in ("plugins", "playbooks", "roles", "molecule/driver"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".py", ".yml"):
                text = path.read_text(encoding="utf-8").replace("\\n", " ")
                texts.append(re.sub(r"\"\s*\n?\s*(?:\+ )?r?f?\"", "", text))
    return re.sub(r"\s+", " ", " ".join(texts))


def test_messages_in_troubleshooting_are_ours() -> None:
    """The sections about runs and nodes quote this collection; that about jobs quotes Slurm."""
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8").split("\n## Jobs")[0]
    quoted = re.findall(r"^\| `([^`]+)` \|", text, re.M)
    assert len(quoted) > 15
    missing = [message for message in quoted if message not in sources()]
    assert not missing


def test_live_cluster_says_what_the_table_of_parameters_says() -> None:
    text = (ROOT / "docs" / "live_cluster.md").read_text(encoding="utf-8")

    def part(name: str) -> set[str]:
        inside = text.split(f"<!-- {name}: begin -->")[1].split(f"<!-- {name}: end -->")[0]
        return set(re.findall(r"`(\w+)`", inside))

    rows = parameters.RESTART
    assert part("refused") == {row[0] for row in rows if row[3] == "refuse"}
    restarts = [row for row in rows if row[3] != "refuse"]
    assert part("always") == {row[0] for row in restarts if row[2] is None}
    assert part("old") == {row[0] for row in restarts if row[2]}


def test_ports_are_the_defaults() -> None:
    text = (ROOT / "docs" / "ports.md").read_text(encoding="utf-8")
    for name, port in DEFAULTS["slurm_ports"].items():
        assert re.search(rf"^\| {port}/tcp \| {name} ", text, re.M), name
    assert f"| {DEFAULTS['slurm_srun_port_range']}/tcp | srun |" in text


def test_exceptions_of_check_mode_are_tasks() -> None:
    text = (ROOT / "docs" / "check_mode.md").read_text(encoding="utf-8")
    inside = text.split("fresh cluster: begin -->")[1].split("<!-- exceptions")[0]
    names = re.findall(r"^\| `?([^|`]+?)`? \|", inside, re.M)[2:]
    tasks = "\n".join(path.read_text() for path in (ROOT / "roles").glob("*/tasks/*.yml"))
    assert not [name for name in names if f"- name: {name}\n" not in tasks]
