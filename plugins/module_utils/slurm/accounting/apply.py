# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The work of the accounting modules: read, plan, and unless it is a check apply and look again.

slurm_accounting does a whole tree, the others one thing each; all over the same planner. Runs on
nodes: Python 3.9.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import typing as t

from ..client.objects import diff
from ..client.session import Session
from ..client.transport import Operation, Transport
from ..errors import SlurmError, unknown_names
from ..records import Job, Partition
from . import identity, kept, plan, removals, uids
from . import state as accounting
from .state import AccountingError, Plan, State, Wanted

#: Options shared by the modules for associations.
LIMITS: dict[str, dict[str, t.Any]] = {
    "fairshare": {"type": "str"},
    "qos": {"type": "list", "elements": "str"},
    "default_qos": {"type": "str"},
    "options": {"type": "dict", "default": {}},
}
STATE = {"type": "str", "choices": ["present", "absent"], "default": "present"}
_CAPABILITIES = {"add": "create", "modify": "update", "remove": "delete"}
#: Makes the plan for a cluster and its accounting.
Planner = t.Callable[[str, State, Transport], Plan]


def _clusters(session: Session, transport: Transport) -> list[dict[str, str]]:
    columns = {"cluster": accounting.CLUSTER_COLUMNS}
    return session.call(transport.accounting_rows, ("cluster",), "", columns)["cluster"]


def _cluster(
    session: Session, transport: Transport, registered: bool
) -> tuple[str, list[dict[str, str]]]:
    """Return the cluster that is meant, and the rows of all; registered: it must be there."""
    rows = _clusters(session, transport)
    known = [row["cluster"] for row in rows]
    named = session.params.get("cluster") or ""
    if named and registered and named not in known:
        raise unknown_names("cluster", [named], known)
    if not named and len(known) != 1:
        raise AccountingError(
            f"cluster is not given, and the accounting has {', '.join(known) or 'none'} -> set "
            "cluster"
        )
    return named or known[0], rows


def _state(
    session: Session, transport: Transport, wanted: Wanted, registered: bool
) -> tuple[str, State]:
    cluster, clusters = _cluster(session, transport, registered)
    kinds = ("account", "user", "qos", "assoc")
    columns = accounting.columns(wanted)
    rows = session.call(transport.accounting_rows, kinds, cluster, columns)
    return cluster, State.from_rows({**rows, "cluster": clusters})


def _jobs(session: Session, transport: Transport) -> list[Job]:
    """Return the jobs that slurmctld knows."""
    return session.call(transport.jobs)


def _partitions(session: Session, transport: Transport) -> list[Partition]:
    """Return the partitions of slurmctld."""
    return session.call(transport.partitions)


def _needs(operations: t.Sequence[Operation]) -> list[str]:
    return sorted({_CAPABILITIES[operation.verb] for operation in operations})


def converge(
    session: Session, wanted: Wanted, planner: Planner, registered: bool = True
) -> dict[str, t.Any]:
    """Return the result of a module; planner is asked again after the changes, and for a retry.

    registered: whether the cluster must be in the database already.
    """

    def read_and_plan() -> tuple[str, Plan]:
        transport = session.using("read")
        cluster, state = _state(session, transport, wanted, registered)
        return cluster, planner(cluster, state, transport)

    cluster, planned = read_and_plan()
    transport = session.using("read", *_needs(planned.operations))
    result = _result(planned, transport.name)
    if session.check or not planned.operations:
        return result
    todo = [planned]

    def apply() -> None:
        # After a failover some of it may be done: the rest is planned again.
        if not todo:
            todo.append(read_and_plan()[1])
        transport.apply(todo.pop().operations)

    session.call(apply)
    left = read_and_plan()[1]
    result["warnings"] = [
        f"{what}: Slurm accepted {left.after.get(what)} and shows {left.before.get(what)} -> write "
        "the value as Slurm shows it, or the next run changes it again"
        for what in {**left.before, **left.after}
    ]
    return result


def _result(planned: Plan, transport: str) -> dict[str, t.Any]:
    return {
        "changed": bool(planned.operations),
        "operations": [accounting.describe(operation) for operation in planned.operations],
        "transport": transport,
        "diff": diff(planned.before, planned.after),
    }


def _present(session: Session, params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    wanted = accounting.wanted_from(params)
    return converge(session, wanted, lambda c, state, _: plan.plan(c, wanted, state))


# --- the modules ----------------------------------------------------------------------------------
def tree(session: Session) -> dict[str, t.Any]:
    """slurm_accounting: accounts, users and QOS of a cluster in one call."""
    wanted = accounting.wanted_from(session.params)
    owned = wanted.owned
    owns = bool(owned.accounts_below or owned.users_of or owned.qos)

    def planner(cluster: str, state: State, transport: Transport) -> Plan:
        jobs = _jobs(session, transport) if owns else []
        partitions = _partitions(session, transport) if owned.qos else []
        return plan.plan(cluster, wanted, state, jobs, partitions)

    with _own_conf(session):
        return _tree(session, wanted, planner)


@contextlib.contextmanager
def _own_conf(session: Session) -> t.Iterator[None]:
    """Have the commands read the lines of conf_lines, from a file beside slurm.conf: auth/slurm has its key there."""
    given = session.params
    if session.check or not given["conf_lines"]:
        yield
        return
    directory = os.path.dirname(given["slurm_conf"] or "/etc/slurm/slurm.conf")
    path = ""
    try:
        os.makedirs(directory, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix=".trainwright-", suffix=".conf", dir=directory)
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write("\n".join([*given["conf_lines"], ""]))
    except OSError as error:
        raise SlurmError(
            "invalid", f"{path or directory}: {error.strerror} -> see what is there, and run again"
        ) from error
    session.params = {**given, "slurm_conf": path}
    try:
        yield
    finally:
        session.params = given
        os.unlink(path)


def _tree(session: Session, wanted: Wanted, planner: Planner) -> dict[str, t.Any]:
    directory = session.params["state_directory"]
    try:
        if session.params["cluster"] and session.params["controller_state"]:
            identity.refuse_another(
                session.params["cluster"],
                session.params["controller_state"],
                lambda: [row["cluster"] for row in _clusters(session, session.using("read"))],
            )
        result = converge(session, wanted, planner, registered=False)
        result = kept.keep(session, directory, result) if directory else result
        compares = session.params["controller_state"] and not session.params["conf_lines"]
        return uids.renew(session, result) if compares else result
    except SlurmError as error:
        # Before the first real run there is nothing to ask; then everything would be made.
        unbuilt = session.check and session.params["cluster"]
        if not unbuilt or error.kind not in ("missing", "database", "down"):
            raise
        wanted.owned = accounting.Owned()
        planned = plan.plan(session.params["cluster"], wanted, State())
        # That Slurm is not installed yet is what a first check is about.
        said = [] if error.kind == "missing" else [f"planned as for an empty accounting: {error}"]
        return {**_result(planned, ""), "warnings": said}


def account(session: Session) -> dict[str, t.Any]:
    """slurm_account: one account."""
    return _named(session, "accounts", removals.without_account)


def user(session: Session) -> dict[str, t.Any]:
    """slurm_user: one user with their accounts."""
    return _named(session, "users", removals.without_user)


def _named(session: Session, kind: str, without: t.Callable[..., Plan]) -> dict[str, t.Any]:
    """Bring one thing to its options, or remove it by the plan of without."""
    params = session.params
    if params["state"] == "present":
        return _present(session, {kind: [_given(params, "cluster", "state")]})
    return converge(
        session,
        Wanted(),
        lambda cluster, state, transport: without(
            cluster, params["name"], state, _jobs(session, transport)
        ),
    )


def association(session: Session) -> dict[str, t.Any]:
    """slurm_association: a user's place in an account."""
    params = session.params
    name, account_, partition = params["user"], params["account"], params["partition"] or ""
    if params["state"] == "absent":
        return converge(
            session,
            Wanted(),
            lambda cluster, state, transport: removals.without_place(
                cluster, name, (account_, partition), state, _jobs(session, transport)
            ),
        )
    keys = ("fairshare", "qos", "default_qos", "options")
    member = {"name": name, "partition": partition, **{key: params[key] for key in keys}}
    wanted = accounting.wanted_from({"accounts": [{"name": account_, "users": [member]}]})
    wanted.accounts.clear()  # it must be there
    if params["default"]:
        wanted.users[name]["default"] = account_
    return converge(session, wanted, lambda c, state, _: plan.plan(c, wanted, state))


def qos(session: Session) -> dict[str, t.Any]:
    """slurm_qos: one QOS."""
    params = session.params
    if params["state"] == "present":
        return _present(session, {"qos": [_given(params, "cluster", "state")]})
    name = params["name"]
    return converge(
        session,
        Wanted(),
        lambda cluster, state, transport: removals.without_qos(
            cluster,
            name,
            state,
            _jobs(session, transport),
            _partitions(session, transport),
        ),
    )


def cluster(session: Session) -> dict[str, t.Any]:
    """slurm_cluster: the cluster itself, and what holds for all its accounts."""
    params = session.params
    if params["state"] == "absent":
        name = params["cluster"]
        return converge(
            session,
            Wanted(),
            lambda _cluster, state, _: removals.without_cluster(name, state),
            registered=False,
        )
    wanted = accounting.wanted_from({})
    wanted.cluster_settings = accounting.association_settings(
        f"cluster {params['cluster']}", params
    )
    return converge(
        session,
        wanted,
        lambda c, state, _: plan.plan(c, wanted, state),
        registered=False,
    )


def _given(params: t.Mapping[str, t.Any], *without: str) -> dict[str, t.Any]:
    """Return the options that describe the thing itself."""
    common = ("transport", "slurm_prefix", "slurm_conf", "controller_timeout", *without)
    return {
        key: value
        for key, value in params.items()
        if value is not None and key not in common and not key.startswith("rest_")
    }
