# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Writes docs/reference, docs/capabilities.md, docs/*.schema.json and roles/*/README.md from plugins and roles.

Run by `make docs`; tests/unit/test_documentation.py fails when a page is not what this writes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".collections"))
from ansible_collections.trainwright.slurm.plugins.module_utils.checks import result
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client import capabilities
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.releases import KNOWN
from ansible_collections.trainwright.slurm.plugins.module_utils.training.record import (
    document as run_record,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.validation import document

COLLECTION = "trainwright.slurm"
# Directory below plugins/ and the name that ansible-doc has for what lies there. An action plugin
# is documented by the module of its name.
KINDS = {
    "modules": "module",
    "inventory": "inventory",
    "callback": "callback",
    "filter": "filter",
    "lookup": "lookup",
}
NOTE = "<!-- Written by `make docs`; change the {source} instead. -->"

Json = dict[str, Any]


def markdown(text: str | list[str]) -> str:
    """Ansible's markup as Markdown: O(x), V(x), C(x) and their like, L(text, url), U(url)."""
    text = " ".join(text) if isinstance(text, list) else str(text)
    text = re.sub(r"\bL\(([^,()]+),\s*([^()]+)\)", r"[\1](\2)", text)
    text = re.sub(r"\bU\(([^()]+)\)", r"<\1>", text)
    text = re.sub(r"\b(?:RV|[COVMIEP])\(((?:[^()\\]|\\.|\([^()]*\))*)\)", _code, text)
    text = re.sub(r"\bB\(([^()]+)\)", r"**\1**", text)
    return " ".join(text.split())


def _code(match: re.Match[str]) -> str:
    # Inside its markup, Ansible wants a closing bracket escaped; Markdown does not.
    return "`" + re.sub(r"\\(.)", r"\1", match[1]) + "`"


def cell(text: str) -> str:
    """Text that does not end a table's cell."""
    return text.replace("|", "\\|").replace("\n", " ")


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(map(cell, row)) + " |" for row in rows]


def kind_of(option: Json) -> str:
    """The type of an option or return value, such as `list of dict`."""
    kind = str(option.get("type", "str"))
    return f"{kind} of {option['elements']}" if "elements" in option else kind


def default_of(option: Json) -> str:
    """The default of an option, `required`, or nothing."""
    if option.get("required"):
        return "required"
    return f"`{json.dumps(option['default'])}`" if "default" in option else ""


def option_rows(options: Json, prefix: str = "") -> Iterator[list[str]]:
    """A row for each option; what lies in a list or dict follows it as `list[].name`."""
    for name, option in options.items():
        text = markdown(option.get("description", ""))
        if "choices" in option:
            choices = ", ".join(f"`{choice}`" for choice in option["choices"])
            text += f" One of {choices}."
        yield [f"`{prefix}{name}`", kind_of(option), default_of(option), text]
        # A module's documentation says suboptions, an argument spec says options.
        inner = option.get("suboptions") or option.get("options") or {}
        mark = "[]" if kind_of(option).startswith("list") else ""
        yield from option_rows(inner, f"{prefix}{name}{mark}.")


def return_rows(values: Json, prefix: str = "") -> Iterator[list[str]]:
    """A row for each return value; what it contains follows it."""
    for name, value in values.items():
        text = markdown(value.get("description", ""))
        yield [f"`{prefix}{name}`", kind_of(value), markdown(value.get("returned", "")), text]
        mark = "[]" if kind_of(value).startswith("list") else ""
        yield from return_rows(value.get("contains") or {}, f"{prefix}{name}{mark}.")


def paragraphs(description: str | list[str]) -> list[str]:
    """Each entry of a description as a paragraph."""
    entries = [description] if isinstance(description, str) else description
    return [line for entry in entries for line in (markdown(entry), "")]


def plugin_page(name: str, kind: str, plugin: Json) -> str:
    """The page of a plugin from what ansible-doc says of it."""
    doc = plugin["doc"]
    lines = [
        f"# {name} ({kind})",
        "",
        NOTE.format(source="plugin's documentation"),
        "",
        markdown(doc["short_description"]) + ".",
        "",
        *paragraphs(doc.get("description", [])),
    ]
    if doc.get("options"):
        head = ["Option", "Type", "Default", "Description"]
        lines += ["## Options", "", *table(head, list(option_rows(doc["options"]))), ""]
    for note in doc.get("notes", []):
        lines += [f"> {markdown(note)}", ""]
    if plugin.get("examples"):
        lines += ["## Examples", "", "```yaml", plugin["examples"].strip("\n"), "```", ""]
    if plugin.get("return"):
        head = ["Value", "Type", "Returned", "Description"]
        lines += ["## Return values", "", *table(head, list(return_rows(plugin["return"]))), ""]
    # The documentation names guides by their path in the collection, which ansible-doc can show, too.
    return re.sub(r"(?<!\[)`docs/(\w+\.md)`", r"[docs/\1](../\1)", "\n".join(lines))


def role_page(role: str, specs: Json) -> str:
    """The README of a role from its argument specs."""
    # A role that only lends its entry points has no main one.
    main = specs.get("main") or next(iter(specs.values()))
    lines = [
        f"# {COLLECTION}.{role}",
        "",
        NOTE.format(source="role's meta/argument_specs.yml"),
        "",
        main["short_description"].rstrip(".") + ".",
        "",
        *paragraphs(main.get("description", [])),
    ]
    seen: Json = {}
    for entry, spec in specs.items():
        if spec is not main:
            text = [f"Entry point `{entry}`", "", spec["short_description"].rstrip(".") + ".", ""]
            lines += ["## " + text[0], *text[1:], *paragraphs(spec.get("description", []))]
        options = spec.get("options") or {}
        if not options or options == seen:
            lines += ["It takes the same variables." if options else "It takes no variables.", ""]
            continue
        seen = options
        head = ["Variable", "Type", "Default", "Description"]
        title = "## Variables" if spec is main else "### Variables"
        lines += [title, "", *table(head, list(option_rows(options))), ""]
    if role != "cluster":
        lines += ["The cluster's own variables are those of [cluster](../cluster/README.md).", ""]
    return "\n".join(lines)


def capabilities_page() -> str:
    """docs/capabilities.md: what each module can do through which transport since when."""
    releases = ", ".join(KNOWN)
    lines = [
        "# What Slurm can do through which transport",
        "",
        NOTE.format(source="table in plugins/module_utils/slurm/client/capabilities.py"),
        "",
        "The `slurm_*` modules reach Slurm in two ways: through its own commands on the host of the task",
        "(`transport: cli`), or through slurmrestd with a token (`transport: rest`), which does not need",
        "Slurm on that host. `transport: auto` uses the commands where they exist and can do the task, and",
        "slurmrestd otherwise. Each release of slurmrestd can change more than the one before; a task that needs",
        "more than yours can do fails before anything is changed, and names the release that can.",
        "",
        f'The table covers {releases}. "all" means all of these.',
        "",
        capabilities.markdown(),
        "",
        "[rest.md](rest.md) explains how to get a token. All modules share these options, for example",
        "[slurm_node](reference/slurm_node.md).",
        "",
    ]
    return "\n".join(lines)


def documented(directory: Path) -> list[str]:
    """Names of the plugins in a directory; one file can have several, each with a .yml of its own."""
    python = [
        path.stem
        for path in directory.glob("[a-z]*.py")
        if "DOCUMENTATION = " in path.read_text(encoding="utf-8")
    ]
    return sorted([*python, *(path.stem for path in directory.glob("[a-z]*.yml"))])


def ansible_doc(kind: str, names: list[str]) -> dict[str, Json]:
    """What ansible-doc says of plugins, by full name."""
    program = Path(sys.executable).parent / "ansible-doc"
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections")}
    command = [str(program), "-t", kind, "--json", *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout or "{}")
    if missing := set(names) - set(found):
        raise SystemExit(f"no documentation of {', '.join(sorted(missing))}: {done.stderr}")
    return found


def pages() -> dict[Path, str]:
    """Every generated page by its path."""
    made: dict[Path, str] = {}
    reference = ROOT / "docs" / "reference"
    index = ["# Reference", "", NOTE.format(source="documentation of each part"), ""]
    for directory, kind in KINDS.items():
        names = [f"{COLLECTION}.{name}" for name in documented(ROOT / "plugins" / directory)]
        if not names:
            continue
        index += [f"## {directory.capitalize()}", ""]
        for name, plugin in sorted(ansible_doc(kind, names).items()):
            page = f"{name.rpartition('.')[2]}.md"
            made[reference / page] = plugin_page(name, kind, plugin)
            index += [f"- [{name}]({page}): {markdown(plugin['doc']['short_description'])}"]
        index += [""]
    index += ["## Roles", ""]
    for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml")):
        role = path.parents[1]
        specs = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
        made[role / "README.md"] = role_page(role.name, specs)
        link = f"../../roles/{role.name}/README.md"
        title = next(iter(specs.values()))["short_description"]
        index += [f"- [{COLLECTION}.{role.name}]({link}): {title}"]
    made[ROOT / "docs" / "capabilities.md"] = capabilities_page()
    schemas = {
        "results": result.SCHEMA,
        "validation": document.SCHEMA,
        "run": run_record.SCHEMA,
    }
    for name, schema in schemas.items():
        made[ROOT / "docs" / f"{name}.schema.json"] = json.dumps(schema, indent=2) + "\n"
    made[reference / "README.md"] = "\n".join([*index, ""])
    return made


def main() -> None:
    """Write every page, and remove reference pages of what is gone."""
    made = pages()
    for old in (ROOT / "docs" / "reference").glob("*.md"):
        if old not in made:
            old.unlink()
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{len(made)} pages")


if __name__ == "__main__":
    main()
