# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests of cluster_secrets on a real directory, with the real ssh-keygen where it is needed."""

from __future__ import annotations

import base64
import datetime
import os
import shutil
import stat
import subprocess
import time

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node import secrets

ALL = ["munge_key", "slurm_key", "jwt_key", "database_password", "ssh_ca"]
NO_CA = ALL[:-1]
KEY = "ssh-ed25519 " + base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + bytes(32)).decode()

needs_ssh_keygen = pytest.mark.skipif(
    not shutil.which("ssh-keygen"), reason="ssh-keygen is not installed"
)


def ensure(store, want=NO_CA, host_keys=(), adopt=None, check=False, days=364) -> dict:
    return secrets.ensure(str(store), list(want), list(host_keys), days, adopt or {}, check)


def host(name="c1", key=KEY, **given) -> dict:
    return {"name": name, "principals": [name, "10.0.0.1"], "key": key, **given}


@pytest.fixture
def store(tmp_path):
    return tmp_path / "secrets"


def test_each_secret_is_made_once(store):
    first = ensure(store)
    assert first["changed"]
    sizes = {name: len(base64.b64decode(value)) for name, value in first["secrets"].items()}
    assert sizes == {"munge_key": 1024, "slurm_key": 1024, "jwt_key": 32, "database_password": 32}
    assert first["secrets"]["munge_key"] != first["secrets"]["slurm_key"]
    password = base64.b64decode(first["secrets"]["database_password"])
    assert int(password, 16)
    second = ensure(store)
    assert not second["changed"]
    assert second["secrets"] == first["secrets"]


@pytest.mark.parametrize("value", [b"BADSECRET1\n", b'BAD"SECRET1', b"BADSECRET\0\0"])
def test_a_password_that_slurmdbd_could_not_read_is_refused_unseen(store, value):
    """Before the database has it: `echo` into the file is enough."""
    ensure(store)
    (store / "database_password").write_bytes(value)
    with pytest.raises(
        secrets.SecretError, match="database_password: it holds a line end"
    ) as error:
        ensure(store)
    assert "BAD" not in str(error.value)
    for good in (b"BADSECRET1", "a b#c\\d'é$".encode()):
        (store / "database_password").write_bytes(good)
        assert base64.b64decode(ensure(store)["secrets"]["database_password"]) == good


def test_a_key_of_all_hosts_is_not_made_for_some_of_them(store, tmp_path, monkeypatch):
    """A run with --limit restarted munge with a new key on its hosts, and all others went down."""
    monkeypatch.setattr(secrets, "RECORD", str(tmp_path / "none.json"))

    def limited(*want, **given):
        return secrets.ensure(str(store), list(want), [], 9, limit="c9,ctl1", **given)

    assert limited("munge_key", adopt={}, check=False)["made"], "the first run of a cluster"
    (tmp_path / "record.json").write_text("{}")
    assert not limited("munge_key", adopt={}, check=False)["made"]
    key = store / "munge.key"
    value = key.read_bytes()
    key.unlink()
    for check in (True, False):
        with pytest.raises(secrets.SecretError, match="would go to c9,ctl1 alone.*without --limit"):
            limited("munge_key", adopt={}, check=check)
    assert not key.exists() and limited("jwt_key", adopt={}, check=False)["made"] == ["jwt_key"]
    # One that the cluster runs with is not new.
    (tmp_path / "munge.key").write_bytes(value)
    adopt = {"munge_key": str(tmp_path / "munge.key")}
    assert limited("munge_key", adopt=adopt, check=False) and key.read_bytes() == value
    key.unlink()
    # slurm_auth_secrets_directory may be far from the record.
    (tmp_path / "record.json").rename(tmp_path / "far.json")
    monkeypatch.setattr(secrets, "RECORD", str(tmp_path / "far.json"))
    with pytest.raises(secrets.SecretError, match="would go to c9,ctl1 alone"):
        limited("munge_key", adopt={}, check=False)
    assert ensure(store, ["munge_key"])["made"] == ["munge_key"]


def test_only_root_can_look(store):
    ensure(store)
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in store.iterdir()} == {0o600}
    store.chmod(0o755)
    assert ensure(store)["made"] == ["directory"]
    assert stat.S_IMODE(store.stat().st_mode) == 0o700


def test_rights_that_somebody_gave_away_are_taken_back(store):
    ensure(store)
    key = store / "jwt_hs256.key"
    os.chown(key, 4242, 1)
    key.chmod(0o644)
    assert ensure(store, check=True)["made"] == ["rights of jwt_hs256.key"]
    assert key.stat().st_uid == 4242
    assert ensure(store)["made"] == ["rights of jwt_hs256.key"]
    info = key.stat()
    assert (info.st_uid, info.st_gid, info.st_mode & 0o7777) == (os.geteuid(), os.getegid(), 0o600)
    assert not ensure(store)["changed"]


def test_check_mode_writes_nothing_and_says_what_would_be_made(store):
    result = ensure(store, ALL, [host()], check=True)
    assert result["changed"]
    assert set(result["secrets"].values()) == {""}
    assert result["host_certificates"] == {"c1": ""}
    assert not store.exists()


def test_a_running_clusters_keys_are_taken_over_once(store, tmp_path):
    theirs = tmp_path / "munge.key"
    theirs.write_bytes(b"k" * 128)
    result = ensure(store, ["munge_key"], adopt={"munge_key": str(theirs)})
    assert base64.b64decode(result["secrets"]["munge_key"]) == b"k" * 128
    theirs.write_bytes(b"x" * 128)
    assert not ensure(store, ["munge_key"], adopt={"munge_key": str(theirs)})["changed"]


def test_what_can_be_taken_over(tmp_path):
    munge = tmp_path / "munge.key"
    jwt = tmp_path / "jwt.key"
    (tmp_path / "slurm.conf").write_text(f"x=y\nauthaltparameters=a,jwt_key={jwt},b\n")
    assert secrets.adoptable(str(tmp_path), str(munge)) == {}
    for path in (munge, jwt, tmp_path / "slurm.key"):
        path.write_bytes(bytes(32))
    assert secrets.adoptable(str(tmp_path), str(munge)) == {
        "munge_key": str(munge),
        "slurm_key": str(tmp_path / "slurm.key"),
        "jwt_key": str(jwt),
    }


def test_a_damaged_secret_is_not_replaced_behind_ones_back(store):
    ensure(store)
    (store / "munge.key").write_bytes(b"")
    with pytest.raises(secrets.SecretError, match="munge.key: 0 bytes.*put the cluster's"):
        ensure(store)


@pytest.mark.parametrize(
    "item, word",
    [
        (host(name="../x"), "not a host name"),
        (host(name="-x"), "not a host name"),
        (host(principals=["a,b"]), "principal"),
        (host(principals=["a b"]), "principal"),
        (host(principals=["*"]), "principal"),
        (host(principals=["c?"]), "principal"),
        (host(key=""), "not an OpenSSH public key"),
        (host(key="ssh-ed25519 !!!"), "not an OpenSSH public key"),
        (host(key="ssh-rsa " + KEY.split()[1]), "not an OpenSSH public key"),
    ],
)
def test_host_keys_are_checked_before_anything_is_made(store, item, word):
    with pytest.raises(secrets.SecretError, match=r"host_keys\[0\].*" + word):
        ensure(store, ALL, [item])
    assert not store.exists()


def test_a_host_is_named_once_and_needs_the_authority(store):
    with pytest.raises(secrets.SecretError, match="given twice"):
        ensure(store, ALL, [host(), host()])
    with pytest.raises(secrets.SecretError, match="add ssh_ca"):
        ensure(store, NO_CA, [host()])


@pytest.fixture
def signed(tmp_path) -> dict:
    """A host with a real key, to be signed."""
    key = tmp_path / "k"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return host(key=key.with_suffix(".pub").read_text())


def shown(store) -> dict[str, str]:
    """The lines of the certificate of c1 by their names."""
    argv = ["ssh-keygen", "-L", "-f", str(store / "host_certs" / "c1-cert.pub")]
    text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    found = dict(line.strip().split(": ", 1) for line in text.splitlines() if ": " in line.strip())
    return {
        **found,
        "Principals": " ".join(text.split("Principals:")[1].split("Critical")[0].split()),
    }


def validity(store) -> list[datetime.datetime]:
    """The two ends of the certificate's validity."""
    words = shown(store)["Valid"].split()
    return [datetime.datetime.fromisoformat(words[place]) for place in (1, 3)]


@needs_ssh_keygen
def test_the_authority_signs_and_signs_again_only_after_a_change(store, signed):
    first = ensure(store, ["ssh_ca"], [signed])
    assert first["made"] == ["directory", "ssh_ca", "host certificate of c1"]
    assert first["secrets"] == {}
    assert first["ssh_ca_public"].startswith("ssh-ed25519 ")
    certificate = shown(store)
    assert "host certificate" in certificate["Type"]
    assert certificate["Principals"] == "10.0.0.1 c1"
    assert int(certificate["Serial"]) > 0
    assert stat.S_IMODE(os.stat(store / "ssh_ca").st_mode) == 0o600

    assert not ensure(store, ["ssh_ca"], [signed])["changed"]
    assert not ensure(store, ["ssh_ca"], [host(key=signed["key"].strip() + "@elsewhere")])[
        "changed"
    ]
    turned = host(key=signed["key"], principals=["10.0.0.1", "c1"])
    assert not ensure(store, ["ssh_ca"], [turned])["changed"]
    more = host(key=signed["key"], principals=["c1", "c1.example"])
    assert ensure(store, ["ssh_ca"], [more])["made"] == ["host certificate of c1"]
    assert int(shown(store)["Serial"]) > int(certificate["Serial"])


@needs_ssh_keygen
def test_a_certificate_expires_and_begins_before_clocks_that_are_behind(store, signed):
    ensure(store, ["ssh_ca"], [signed])
    begin, end = validity(store)
    now = datetime.datetime.now()
    assert datetime.timedelta(minutes=50) < now - begin < datetime.timedelta(minutes=70)
    assert (
        datetime.timedelta(days=363, hours=12) < end - now < datetime.timedelta(days=364, hours=12)
    )
    assert ensure(store, ["ssh_ca"], [signed], days=7)["made"] == ["host certificate of c1"]
    _begin, end = validity(store)
    assert end - now < datetime.timedelta(days=8)


@needs_ssh_keygen
@pytest.mark.parametrize(("later", "renewed"), [(0, False), (242, False), (243, True), (400, True)])
def test_a_certificate_is_renewed_when_a_third_remains(store, signed, monkeypatch, later, renewed):
    ensure(store, ["ssh_ca"], [signed])
    now = time.time()
    monkeypatch.setattr(secrets.time, "time", lambda: now + later * secrets.DAY)
    assert ensure(store, ["ssh_ca"], [signed], check=True)["changed"] is renewed
    assert ensure(store, ["ssh_ca"], [signed])["changed"] is renewed
    assert not ensure(store, ["ssh_ca"], [signed])["changed"]


@needs_ssh_keygen
def test_a_certificate_that_never_expires_is_replaced(store, signed):
    """As earlier versions signed them: the mark beside it was a digest alone."""
    ensure(store, ["ssh_ca"], [signed])
    mark = store / "host_certs" / "c1.sha256"
    mark.write_text(mark.read_text().split()[0] + "\n")
    assert ensure(store, ["ssh_ca"], [signed])["made"] == ["host certificate of c1"]


@needs_ssh_keygen
def test_a_lost_public_half_follows_from_the_private_one(store):
    public = ensure(store, ["ssh_ca"])["ssh_ca_public"]
    (store / "ssh_ca.pub").unlink()
    again = ensure(store, ["ssh_ca"])
    assert again["made"] == ["ssh_ca.pub"]
    assert again["ssh_ca_public"].split()[:2] == public.split()[:2]


def test_a_missing_ssh_keygen_is_said_with_its_package(store, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(secrets.SecretError, match="openssh-client"):
        ensure(store, ["ssh_ca"])


def test_a_link_in_the_store_is_refused(store, tmp_path):
    """It would be read, and no record of what is there could have it: drift.yml called it as left."""
    ensure(store)
    other = tmp_path / "other"
    shutil.move(store / "jwt_hs256.key", other)
    (store / "jwt_hs256.key").symlink_to(other)
    with pytest.raises(
        secrets.SecretError, match="jwt_hs256.key: is a symbolic link.*put the file"
    ):
        ensure(store)


@needs_ssh_keygen
def test_a_public_half_that_somebody_changed_is_written_again(store):
    ensure(store, ["ssh_ca"])
    public = store / "ssh_ca.pub"
    right = public.read_text()
    for wrong in (KEY + "\n", right.replace("trainwright-ca", "other"), "\xff\n"):
        public.write_text(wrong)
        assert ensure(store, ["ssh_ca"], check=True)["made"] == ["ssh_ca.pub"]
        answer = ensure(store, ["ssh_ca"])
        assert answer["made"] == ["ssh_ca.pub"]
        assert (answer["ssh_ca_public"] + "\n", public.read_text()) == (right, right)
    (store / "ssh_ca").chmod(0o644)
    assert ensure(store, ["ssh_ca"], check=True)["made"] == ["rights of ssh_ca"]
    assert ensure(store, ["ssh_ca"])["made"] == ["rights of ssh_ca"]


@needs_ssh_keygen
def test_a_certificate_that_somebody_changed_is_signed_again(store):
    """Else it would be given to its host, and taken for what was left."""
    given = [host(), host("c2")]
    first = ensure(store, ["ssh_ca"], given)["host_certificates"]
    certificates = store / "host_certs"
    shutil.copy(certificates / "c2-cert.pub", certificates / "c1-cert.pub")
    answer = ensure(store, ["ssh_ca"], given)
    assert answer["made"] == ["host certificate of c1"]
    assert answer["host_certificates"]["c1"].endswith(" c1")
    assert answer["host_certificates"]["c2"] == first["c2"]
    assert not ensure(store, ["ssh_ca"], given)["changed"]


@needs_ssh_keygen
def test_a_certificate_of_an_older_release_is_noted_and_stays(store):
    first = ensure(store, ["ssh_ca"], [host()])
    mark = store / "host_certs" / "c1.sha256"
    whole = mark.read_text()
    mark.write_text(" ".join(whole.split()[:2]) + "\n")
    second = ensure(store, ["ssh_ca"], [host()])
    assert (second["changed"], second["host_certificates"]) == (False, first["host_certificates"])
    assert mark.read_text() == whole
