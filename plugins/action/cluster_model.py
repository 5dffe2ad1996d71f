# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Collects what the hosts reported, refuses bad input with its remedy, returns the cluster model."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
import os
import shlex
import typing as t

from ansible import constants, context
from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster import wanted as digests
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.registry import (
    problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.checks.tags import (
    starts_with_old,
    tag_problems,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.inputs import (
    CLUSTER,
    FROM_OTHER_ROLES,
    HOST_VARIABLES,
    INVENTORY,
    INVENTORY_SETTINGS,
    INVENTORY_VARIABLES,
    LOGIN_VARIABLES,
    SERVER_VARIABLES,
    STACK_OF_HOST,
    STACK_VARIABLES,
    Inputs,
    Problem,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.model import build_model
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.record import (
    RECORD_FORMAT,
    checked,
)
from ansible_collections.trainwright.slurm.plugins.module_utils.cluster.schema import Model
from ansible_collections.trainwright.slurm.plugins.module_utils.hooks import plan
from ansible_collections.trainwright.slurm.plugins.module_utils.node.names import some
from ansible_collections.trainwright.slurm.plugins.module_utils.node.terminal import printable
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.hostlist import HostlistError
from ansible_collections.trainwright.slurm.plugins.plugin_utils import (
    customise,
    hook_files,
    wanted,
)

RECORD_PATH = "/var/lib/trainwright/record.json"
# The facts that the action node_facts judged. ansible_facts are whatever the latest module on that host returned.
REGISTERED = "slurm_facts"


def plain(value: t.Any) -> t.Any:
    """Return a value in plain containers, each template in it resolved once."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=repr)
    return value


def command() -> str:
    """Return the ansible-playbook command of this run, without --limit and other options."""
    playbooks = context.CLIARGS.get("args") or ()
    if isinstance(playbooks, str) or not playbooks:  # not run by ansible-playbook
        return "ansible-playbook trainwright.slurm.site"
    inventories = [
        item for item in context.CLIARGS.get("inventory") or () if item not in default_inventory()
    ]
    words = [word for item in inventories for word in ("-i", item)]
    return shlex.join(["ansible-playbook", *words, *playbooks])


def is_ours(playbook: str) -> bool:
    """Tell whether a playbook of the command line is one of this collection."""
    root = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", ".."))
    return playbook.startswith("trainwright.slurm.") or os.path.realpath(playbook).startswith(
        (os.path.join(root, "playbooks", ""), os.path.join(root, "site.yml"))
    )


def default_inventory() -> list[str]:
    """Return the inventories that need no -i, since ansible.cfg names them."""
    return list(constants.config.get_config_value("DEFAULT_HOST_LIST") or [])


def as_declared(value: t.Any, option: dict[str, t.Any]) -> t.Any:
    """Return the value as Ansible gives it to a module: a number where text is declared is text."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return str(value) if is_number and option.get("type") in ("str", "path") else value


def refusal(found: list[Problem], expected: t.Any) -> str:
    """Return the message that ends the run. expected: given where this run has installed packages."""
    noun = "problem" if len(found) == 1 else "problems"
    when = "before anything was changed"
    if expected:
        when = "after the packages were installed, before anything was configured"
    return f"{len(found)} {noun} found {when}:\n" + "\n".join(str(item) for item in found)


def fact_problems(
    host: str, facts: t.Mapping[str, t.Any], variables: t.Collection[str]
) -> t.Iterator[Problem]:
    """Yield why the facts of a host are not believed. variables: names that facts must not have."""
    # Any module that ran there may have returned them, and Ansible prefers them to the inventory.
    for name in sorted(facts.keys() & variables):
        yield Problem(
            host,
            "facts",
            f"{name} is among them, and would replace that variable of the inventory",
            "find out who is root there; a site that sets it by set_fact with cacheable writes it into the inventory"
            " instead, and empties the cache of facts",
        )


def _of_template(name: str, error: AnsibleError) -> str:
    """Return what is wrong; Ansible adds the cause and its place in the inventory."""
    remedy = (
        "set the variable that is undefined; a file outside group_vars, such as a vault, is given with -e @FILE"
        if "undefined" in str(error)
        else "correct it; in YAML, text with {{, {% or {# that is not a template needs !unsafe before it"
    )
    return f"{CLUSTER}: {name}: its template cannot be read -> {remedy}"


class ActionModule(ActionBase):
    """The action of trainwright.slurm.cluster_model; options are documented in the module."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def __init__(self, *args: t.Any, **kwargs: t.Any) -> None:
        super().__init__(*args, **kwargs)
        #: How each host is compared with what was left there (node_facts).
        self._looks: dict[str, dict[str, t.Any]] = {}

    def run(
        self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None
    ) -> dict[str, t.Any]:
        """Return the model as the result; raise AnsibleActionFail naming every problem."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        task_vars = task_vars or {}
        validated, options = self.validate_argument_spec(
            argument_spec={
                "argument_specs": {"type": "list", "elements": "path", "required": True},
                "supported_os": {"type": "dict", "required": True},
                "settings": {"type": "dict", "default": {}},
                "remove": {"type": "list", "elements": "str", "default": []},
                "expected": {"type": "dict"},
                "wanted": {"type": "bool", "default": False},
            }
        )
        # The playbooks refuse it first, but with --limit their play on localhost does not run.
        failure = task_vars.get("aws_inventory_failure")
        if failure:
            raise AnsibleActionFail(printable(f"{INVENTORY}: {failure}"))
        inputs = self._collect(options, task_vars)
        try:
            found = [*self._tag_problems(inputs), *problems(inputs)]
        except HostlistError as error:
            raise AnsibleActionFail(f"control node: {error}") from error
        found += self._customisation_problems(inputs, task_vars)
        if found:
            raise AnsibleActionFail(refusal(found, options["expected"]))
        model = build_model(inputs)
        found = self._daemon_problems(inputs, model)
        if found:
            raise AnsibleActionFail(refusal(found, options["expected"]))
        expected = options["expected"] or {}
        said = expected.get("messages") or []
        result["changed"] = False
        result["news"] = [message for message in model["messages"] if message not in said]
        result["as_expected"] = expected.get("version_string") in (None, model["version_string"])
        result["wanted"] = self._wanted(inputs, model, task_vars) if options["wanted"] else None
        served = digests.candidates_with_services(inputs, model)
        result["wanted_services"] = [host for host in served if host in (result["wanted"] or {})]
        result["record_stays"] = inputs["record"] == model["record"]
        result["looks"] = {host: look for host, look in self._looks.items() if look}
        result.update(model)
        return result

    def _wanted(self, inputs: Inputs, model: Model, task_vars: dict[str, t.Any]) -> dict[str, str]:
        """Return the digest of what is wanted on each host that may be left out of the run."""
        if not wanted.whole_run():
            return {}
        playbook = str(task_vars.get("playbook_dir") or "")
        variables = {}
        walked: dict[str, list[str]] = {}
        served = digests.candidates_with_services(inputs, model)

        @functools.cache
        def others() -> bool:
            hosts = task_vars["groups"]["all"]
            return any(
                wanted.reads_of_a_play(task_vars["hostvars"].raw_get(host)) for host in hosts
            )

        of_play = wanted.names_of(self._task.get_play())
        for host in [*digests.candidates(inputs, model), *served]:
            try:
                raw = {**task_vars["hostvars"].raw_get(host), "hostvars": task_vars["hostvars"]}
                templar = self._templar.copy_with_new_env(available_variables=raw)
                places = customise.template_places(str(raw.get("inventory_dir") or ""), playbook)
                variables[host] = wanted.host_variables(
                    raw, templar.template, places, plain, host in served, others, of_play
                )
                hooks = wanted.hook_contents(model["job_hooks"], places)
                variables[host]["files of job hooks"] = hooks
            except wanted.NotKnown as error:
                walked.setdefault(str(error), []).append(host)
        for why, hosts in walked.items():
            self._display.v(printable(f"walks over {some(hosts, 5)} in every run: {why}"))
        try:
            values = wanted.play_variables(self._task.get_play(), self._templar.template, plain)
            common = [wanted.collection_digest(), values]
        except (OSError, wanted.NotKnown) as error:
            self._display.v(printable(f"walks over all hosts in every run: {error}"))
            return {}
        return digests.wanted(inputs, model, common, variables)

    def _tag_problems(self, inputs: Inputs) -> list[Problem]:
        """Return the --tags that select nothing. A playbook of the site's own may have tags of its own."""
        if not all(map(is_ours, context.CLIARGS.get("args") or ())):
            return []
        tags = context.CLIARGS.get("tags") or ()
        found = tag_problems(tags, inputs["groups"], inputs["hosts_in_run"])
        return [Problem(INVENTORY, "--tags", what, remedy) for what, remedy in found]

    def _daemon_problems(self, inputs: Inputs, model: Model) -> list[Problem]:
        """Return --tags with which daemons would start with the old slurm.conf, and count as started with the new."""
        given = context.CLIARGS
        if not all(map(is_ours, given.get("args") or ())):
            return []
        tags, skipped = given.get("tags") or (), given.get("skip_tags") or ()
        slurmd, clients = model["slurmd_reads"]["digest"], model["clients_digest"]
        record = inputs["record"]
        if (record.get("slurmd_digest") or slurmd) != slurmd and starts_with_old(tags, skipped):
            what = "slurm.conf or cgroup.conf is to change in what slurmd and sackd read only when they start"
        elif (
            (record.get("clients_digest") or clients) != clients
            and inputs["groups"].get("slurm_rest")
            and starts_with_old(tags, skipped, ["slurmrestd"])
        ):
            what = "slurm.conf is to change in what slurmrestd reads only when it starts"
        else:
            return []
        what += ", and this run does not set up slurmctld, which has slurm.conf"
        remedy = "add slurmctld to --tags, or run without --tags and --skip-tags"
        return [Problem(INVENTORY, "--tags", what, remedy)]

    def _customisation_problems(self, inputs: Inputs, task_vars: dict[str, t.Any]) -> list[Problem]:
        """Return what is wrong with the units, files and templates of the site."""
        places = customise.template_places(
            str(task_vars.get("inventory_dir") or ""), str(task_vars.get("playbook_dir") or "")
        )
        # Wrong types are reported already.
        settings = {name: value for name, value in inputs["settings"].items() if value}
        found = [*customise.problems(settings, places)]
        if inputs["groups"].get(plan.GROUP):
            found += hook_files.problems(settings, places)
        problems = [Problem(CLUSTER, name, *text.split(" -> ", 1)) for name, text in found]
        for host, own in inputs["differing"].items():
            given = {name: value for name, value in own.items() if value}
            for fault in customise.problems(given, places):
                if fault not in found:
                    problems.append(Problem(host, fault[0], *fault[1].split(" -> ", 1)))
        return problems

    def _collect(self, options: dict[str, t.Any], task_vars: dict[str, t.Any]) -> Inputs:
        """Read the variables of the hosts of slurm_cluster and the controller's record."""
        groups = {name: list(hosts) for name, hosts in task_vars["groups"].items()}
        # The facts of those that were left out after the first look are known, too.
        earlier = digests.hosts_left(groups, task_vars["hostvars"])
        hosts_in_run = list(dict.fromkeys([*task_vars["ansible_play_hosts_all"], *earlier]))
        in_run = set(hosts_in_run)
        facts: dict[str, dict[str, t.Any]] = {}
        host_vars: dict[str, dict[str, t.Any]] = {}
        servers, logins = ({*groups.get(f"slurm_{name}", [])} for name in ("nfs_server", "login"))
        services = servers | {
            host
            for group in ("slurm_controller", "slurm_database", "slurm_login", "slurm_rest")
            for host in groups.get(group, [])
        }
        own, *others = (self._specs(file) for file in options["argument_specs"])
        arguments = {name: option for specs in (own, *others) for name, option in specs.items()}
        of_hosts = (*HOST_VARIABLES, *INVENTORY_VARIABLES)
        public = {*arguments, *of_hosts, *SERVER_VARIABLES, *LOGIN_VARIABLES, *INVENTORY_SETTINGS}
        untrue: list[Problem] = []
        # Each look-up puts the variables of the host together again.
        known_of = {host: task_vars["hostvars"][host] for host in in_run | services}
        for host, variables in known_of.items():
            untrue += fact_problems(host, variables.get("ansible_facts") or {}, public)
            names = (*of_hosts, *SERVER_VARIABLES) if host in servers else of_hosts
            host_vars[host] = {name: plain(variables[name]) for name in names if name in variables}
            for name in LOGIN_VARIABLES if host in logins else ():
                with contextlib.suppress(AnsibleError, KeyError):
                    host_vars[host][name] = plain(variables[name])
            if host in in_run:
                answer = variables.get(REGISTERED) or {}
                if answer.get("node"):
                    facts[host] = plain(answer["node"])
                    self._looks[host] = plain(answer.get("look") or {})
        if untrue:  # nothing is judged by what such a host says
            raise AnsibleActionFail(refusal(sorted(untrue), options["expected"]))
        needed = {*own, *FROM_OTHER_ROLES}
        primary = next(iter(groups.get("slurm_controller", [])), "")
        self._templar, known = self._of_primary(primary, task_vars)
        settings = self._settings(arguments, needed, options["settings"], known)
        settings.update({name: plain(known[name]) for name in INVENTORY_SETTINGS if name in known})
        nodes = {host for group in ("slurm_compute", "slurm_gpu") for host in groups.get(group, [])}
        differing = self._differing(sorted(nodes & facts.keys()), primary, arguments, known_of)
        # A controller that did not answer is refused by preflight, which names the remedy.
        answers = bool(primary) and (primary in facts or primary not in in_run)
        record, digest = self._record(task_vars) if answers else ({}, "")
        return {
            "settings": settings,
            "groups": groups,
            "hosts_in_run": hosts_in_run,
            "facts": facts,
            "host_vars": host_vars,
            "differing": differing,
            "record": record,
            "record_digest": digest,
            "remove": options["remove"],
            "supported_os": options["supported_os"],
            "limit": str(task_vars.get("ansible_limit") or ""),
            "variables": self._ours(options["argument_specs"], known, groups, task_vars),
            "command": command(),
            "arguments": arguments,
        }

    def _differing(
        self,
        hosts: list[str],
        primary: str,
        arguments: dict[str, dict[str, t.Any]],
        known_of: t.Mapping[str, t.Mapping[str, t.Any]],
    ) -> dict[str, dict[str, t.Any]]:
        """Return by host the STACK_VARIABLES and STACK_OF_HOST that are unlike those of the first controller.

        Both by the inventory alone: what the play or the task sets is the same for all.
        """
        names = [name for name in (*STACK_VARIABLES, *STACK_OF_HOST) if name in arguments]

        def values(host: str) -> dict[str, t.Any]:
            variables, found = known_of[host], {}
            for name in names:
                value = arguments[name].get("default")
                if name in variables:
                    try:
                        value = plain(variables[name])
                    except AnsibleError as error:
                        raise AnsibleActionFail(
                            f"{host}: {name}: its template cannot be read -> correct it; it may only use variables that"
                            " the host has before the run"
                        ) from error
                found[name] = as_declared(value, arguments[name])
            return found

        if not hosts or primary not in known_of:
            return {}
        first = values(primary)
        unlike = {
            host: {name: value for name, value in values(host).items() if value != first[name]}
            for host in hosts
        }
        return {host: found for host, found in unlike.items() if found}

    def _ours(
        self,
        files: list[str],
        known: t.Collection[str],
        groups: dict[str, list[str]],
        task_vars: dict[str, t.Any],
    ) -> list[str]:
        """Return the variables of the site whose names begin as those of a role do.

        Those of the primary controller and of one host of each other group: a look-up costs for each host.
        """
        # Only the first word: the others may be what is misspelt.
        prefixes = tuple(file.split("/")[-3].partition("_")[0] for file in files)
        names = set(known)
        for host in {hosts[0] for name, hosts in groups.items() if hosts and name != "all"}:
            variables = task_vars["hostvars"].raw_get(host)
            names.update(variables.keys() - (variables.get("ansible_facts") or {}).keys())
        return sorted(name for name in names if name.startswith(("slurm", *prefixes)))

    def _of_primary(
        self, primary: str, task_vars: dict[str, t.Any]
    ) -> tuple[t.Any, dict[str, t.Any]]:
        """Return the templar and the variables that this task has on the primary controller.

        The first host of a play may be any, and its facts could decide for all where variables are templates.
        """
        host = task_vars.get("inventory_hostname")
        if host == primary or primary not in task_vars["hostvars"]:
            return self._templar, task_vars
        own, theirs = (task_vars["hostvars"].raw_get(name) for name in (host, primary))
        # A value that differs from the inventory of this host comes from the play or the task, and stays.
        stays = {name for name in own if name not in task_vars or task_vars[name] != own[name]}
        known = {name: value for name, value in task_vars.items() if name not in own.keys() - stays}
        known.update({name: value for name, value in theirs.items() if name not in stays})
        return self._templar.copy_with_new_env(available_variables=known), known

    def _specs(self, file: str) -> dict[str, dict[str, t.Any]]:
        """Return the options of the entry point main, by name. They are only read: a copy of all takes 0.2 s."""
        path = os.path.normpath(file)
        specs = self._loader.load_from_file(path, unsafe=True)["argument_specs"]
        return specs.get("main", {}).get("options") or {}

    def _settings(
        self,
        arguments: dict[str, dict[str, t.Any]],
        needed: set[str],
        given: dict[str, t.Any],
        task_vars: dict[str, t.Any],
    ) -> dict[str, t.Any]:
        """Return the value of each argument: what is given, the play's variable, or the default."""
        settings: dict[str, t.Any] = {}
        for name, option in arguments.items():
            if name in (*HOST_VARIABLES, *SERVER_VARIABLES):
                continue  # each host has its own
            value = option.get("default")
            if name in given:
                value = given[name]
            elif name in task_vars:
                try:
                    value = plain(self._templar.template(task_vars[name]))
                except AnsibleError as error:
                    if name in needed:
                        raise AnsibleActionFail(_of_template(name, error)) from error
                    continue  # it needs a fact of its host, and is checked by the role that uses it
            settings[name] = as_declared(plain(value), option)
        return settings

    def _record(self, task_vars: dict[str, t.Any]) -> tuple[dict[str, t.Any], str]:
        """Return the record of the controller this task is delegated to, and its digest; both empty without one."""
        answer = self._execute_module(
            module_name="ansible.legacy.slurp",
            module_args={"src": RECORD_PATH},
            task_vars=task_vars,
        )
        controller = task_vars["groups"]["slurm_controller"][0]
        where = f"{controller}: {RECORD_PATH}:"
        if answer.get("failed"):
            if "not found" in str(answer.get("msg", "")):
                return {}, ""
            raise AnsibleActionFail(
                f"{where} cannot be read: {printable(answer.get('msg'))}"
                " -> check that the controller answers and that become gives root there"
            )
        text = base64.b64decode(answer["content"])
        try:
            record = json.loads(text)
            found = record.get("format") if isinstance(record, dict) else None
        except ValueError as error:
            raise AnsibleActionFail(
                f"{where} is not valid JSON ({error}), and a run without it would forget nodes"
                " -> restore it from a backup or from the other controller. Without either, delete it"
                " and run with every node in the inventory; keys that were revoked are forgotten then"
            ) from None
        if found != RECORD_FORMAT:
            raise AnsibleActionFail(
                f"{where} has the format {found!r}, and this version reads format {RECORD_FORMAT}"
                " -> use the version of trainwright.slurm that wrote it, or a newer one"
            )
        try:
            return checked(record), hashlib.sha256(text).hexdigest()
        except (AttributeError, TypeError, ValueError) as error:
            raise AnsibleActionFail(
                printable(
                    f"{where} {error} -> correct this entry, or restore the record from the other controller"
                )
            ) from None
