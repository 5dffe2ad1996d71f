# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""slurmctld looks the uids of users up again where they have changed, and only there."""

from __future__ import annotations

import pathlib
import types
import typing as t

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.accounting import apply, uids
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.client.session import Session
from ansible_collections.trainwright.slurm.plugins.module_utils.slurm.errors import SlurmError

#: Recorded with Slurm 24.11.5; {bob} is 4294967294 for a user who did not exist when slurmctld started.
SHOWN = """Current Association Manager state

User Records

UserName=root(0) DefAccount=root DefWckey= AdminLevel=Administrator
UserName=bob({bob}) DefAccount=research DefWckey=(null) AdminLevel=None
UserName=alice({alice}) DefAccount=research DefWckey=(null) AdminLevel=None
UserName=left(4294967294) DefAccount=research DefWckey=(null) AdminLevel=None
UserName=slurm(64030) DefAccount=root DefWckey=(null) AdminLevel=None
"""
PASSWD = {"root": 0, "alice": 2001, "bob": 2002, "slurm": 64030, "nobody": 65534}
NOTHING: dict[str, t.Any] = {"changed": False, "operations": []}


class Slurmctld:
    """Looks its users up with a reconfigure. knows: by which uids."""

    def __init__(self, **knows: int) -> None:
        self.knows = {"alice": 2001, "bob": 2002, **knows}
        self.calls: list[str] = []
        self.works = True
        self.down = False

    def from_params(self, _params: t.Any) -> Slurmctld:
        return self

    def command(self, *words: str) -> str:
        self.calls.append(" ".join(words))
        if self.down:
            raise SlurmError("down", "Unable to contact slurm controller -> start it")
        if words[1] == "reconfigure" and self.works:
            self.knows = {name: PASSWD[name] for name in self.knows}
        return SHOWN.format(**self.knows) if words[1] == "show" else ""


@pytest.fixture(autouse=True)
def _host(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry(name: str) -> types.SimpleNamespace:
        return types.SimpleNamespace(pw_uid=PASSWD[name])

    monkeypatch.setattr(uids.pwd, "getpwnam", entry)
    monkeypatch.setattr(uids, "_WAIT", 0.05)
    monkeypatch.setattr(uids, "_INTERVAL", 0.01)


def renew(
    slurmctld: Slurmctld,
    monkeypatch: pytest.MonkeyPatch,
    check: bool = False,
    result: dict[str, t.Any] = NOTHING,
) -> dict[str, t.Any]:
    monkeypatch.setattr(uids, "Cli", slurmctld)
    slurmctld.calls.clear()
    return uids.renew(Session("slurm_accounting", {"controller_timeout": 0}, check), result)


@pytest.mark.parametrize(
    ("knows", "told"),
    [
        ({"alice": 1501}, ["alice by uid 1501, now 2001"]),
        ({"bob": 4294967294}, ["bob by uid 4294967294, now 2002"]),
        (
            {"alice": 2002, "bob": 2001},
            ["alice by uid 2002, now 2001", "bob by uid 2001, now 2002"],
        ),
    ],
)
def test_a_reconfigure_follows_a_changed_uid_once(
    monkeypatch: pytest.MonkeyPatch, knows: dict[str, int], told: list[str]
) -> None:
    slurmctld = Slurmctld(**knows)
    wanted = {
        "changed": True,
        "operations": ["add account a"]
        + [f"reconfigure slurmctld, which knows {one}" for one in told],
    }
    before = {"changed": True, "operations": ["add account a"]}
    foretold = renew(slurmctld, monkeypatch, check=True, result=before)
    assert (foretold, slurmctld.calls) == (wanted, ["scontrol show assoc_mgr flags=users"])
    assert renew(slurmctld, monkeypatch, result=before) == wanted
    assert slurmctld.calls.count("scontrol reconfigure") == 1
    assert renew(slurmctld, monkeypatch) == NOTHING
    assert slurmctld.calls == ["scontrol show assoc_mgr flags=users"]


def test_a_user_whom_the_host_does_not_know_is_no_reason() -> None:
    """A reconfigure would not find that user either, and each run would ask for one."""
    assert uids.old(SHOWN.format(alice=2001, bob=2002)) == {}
    assert uids.old("UserName=alice(7)x DefAccount=\nx UserName=alice(7) \n") == {}


def test_a_slurmctld_that_stays_with_the_old_uid_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slurmctld = Slurmctld(bob=4294967294)
    slurmctld.works = False
    with pytest.raises(SlurmError, match="still knows bob by an old uid .* -> .*restart slurmctld"):
        renew(slurmctld, monkeypatch)


def test_a_slurmctld_that_does_not_answer_is_an_error_of_a_real_run_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slurmctld = Slurmctld(alice=1)
    slurmctld.down = True
    assert renew(slurmctld, monkeypatch, check=True) == NOTHING
    with pytest.raises(SlurmError, match="Unable to contact"):
        renew(slurmctld, monkeypatch)


@pytest.mark.parametrize(
    ("state", "compares"),
    [("/var/spool/slurmctld", True), (None, True), ("/var/spool/slurmctld", False)],
)
def test_the_module_does_it_on_a_controller(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, state: str | None, compares: bool
) -> None:
    """Elsewhere passwd may have other users, and before its first start slurmctld does not know any."""
    slurmctld = Slurmctld(alice=1501)
    monkeypatch.setattr(uids, "Cli", slurmctld)
    monkeypatch.setattr(apply, "converge", lambda *_given, **_more: NOTHING)
    params = {"qos": [], "accounts": [], "users": [], "cluster": "", "state_directory": None}
    params |= {
        "owned": {},
        "controller_state": state,
        "controller_timeout": 0,
        "conf_lines": [] if compares else ["A=1"],
        "slurm_conf": str(tmp_path / "slurm.conf"),
    }
    result = apply.tree(Session("slurm_accounting", params, False))
    done = bool(state and compares)
    assert result["changed"] is done
    assert ("scontrol reconfigure" in slurmctld.calls) is done


def test_lines_of_a_slurm_conf_are_read_while_the_module_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    seen = []

    def converge(session: Session, *_given: t.Any, **_more: t.Any) -> dict[str, t.Any]:
        path = pathlib.Path(session.params["slurm_conf"])
        seen.append((path.parent, path.read_text()))
        return NOTHING

    monkeypatch.setattr(apply, "converge", converge)
    params = {"qos": [], "accounts": [], "users": [], "cluster": "", "state_directory": None}
    params |= {"owned": {}, "controller_state": None, "conf_lines": ["A=1", "B=2"]}
    conf = tmp_path / "etc" / "slurm.conf"
    session = Session("slurm_accounting", {**params, "slurm_conf": str(conf)}, False)
    assert apply.tree(session) == NOTHING
    assert seen == [(conf.parent, "A=1\nB=2\n")] and not [*conf.parent.iterdir()]
    assert session.params["slurm_conf"] == str(conf)
    conf.parent.rmdir()
    conf.parent.write_text("")
    with pytest.raises(SlurmError, match=f"{conf.parent}: File exists -> "):
        apply.tree(session)
