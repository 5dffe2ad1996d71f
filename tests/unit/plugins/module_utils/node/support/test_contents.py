# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tests that no secret gets into a support bundle, and that what helps stays in."""

from __future__ import annotations

import os
import pathlib
import tarfile

import pytest
from ansible_collections.trainwright.slurm.plugins.module_utils.node.support import (
    collect,
    contents,
    join,
)

from tests.unit.images import needs_root, open_directory

__all__ = ["open_directory"]  # a fixture
SECRET = "s3cr3t-Value/+="


@pytest.mark.parametrize(
    "line",
    [
        f"StoragePass={SECRET}",
        f"StoragePass = {SECRET}   # of the database",
        f'password = "{SECRET} with spaces"',
        f"password='{SECRET}'",
        f'{{"password": "{SECRET}", "user": "slurm"}}',
        f"db_password: {SECRET}",
        f"aws_secret_access_key = {SECRET}",
        f"SLURM_JWT={SECRET}",
        f"X-SLURM-USER-TOKEN: {SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"mysql://slurm:{SECRET}@db1:3306/slurm_acct_db".replace("/+=", ""),
        f"https://user:{SECRET}@proxy:3128".replace("/+=", ""),
        f"CREATE USER slurm@localhost IDENTIFIED BY '{SECRET}'",
        f"ALTER USER slurm IDENTIFIED WITH mysql_native_password AS '{SECRET}'",
        f"mysqldump --password={SECRET} slurm_acct_db",
        f"curl --token {SECRET} http://c1",
        f"//nas/home /home cifs user=x,password={SECRET} 0 0",
        f'{{"kty": "oct", "k": "{SECRET}", "kid": "a"}}',
        f"api-key: {SECRET}",
        f"HF_TOKEN={SECRET}",
        f"WANDB_API_KEY={SECRET}",
        f"IPMI_PASS={SECRET}",
        f"smtp_pwd: {SECRET}",
        f"export MYSQL_PWD={SECRET}",
        f'ADMIN_PASSWORD="{SECRET}',
        f'Environment="DB_PASSWORD=s3cr3t and {SECRET}" "LANG=C"',
        "AWS_SECRET_ACCESS_KEY=/s3cr3t/Value",
        f"curl -su admin -u admin:{SECRET} http://bmc1/",
        f"curl --user='admin:{SECRET}' http://bmc1/",
        f"machine nvcr.io login $oauthtoken password {SECRET}",
        "https://hooks.slack.com/services/T0/B0/s3cr3tValue",
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n-----END OPENSSH PRIVATE KEY-----",
        f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n",
    ],
)
def test_secrets_are_masked(line: str) -> None:
    """However it is written, the value goes and masking twice changes nothing."""
    shown = contents.redact(f"before\n{line}\nafter\n")
    assert "s3cr3t" not in shown
    assert shown.startswith("before\n")
    assert "after" in shown or "BEGIN RSA" in line
    assert contents.redact(shown) == shown


@pytest.mark.parametrize(
    "token",
    [
        "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE3MzIwMDAwMDB9.c2lnbmF0dXJlLW9mLWl0",
        "MUNGE:AwQFAADGr3vJ0u5n2bMZlT8ypQ==:",
        "AKIAIOSFODNN7EXAMPLE",
        "hf_abcdefghijklmnopqrstuvwx",
        "ghp_ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
        "nvapi-abcdefghijklmnopqrstuvwx",
        "xoxb-1234567890-abcdef",
    ],
)
def test_tokens_are_known_by_their_form(token: str) -> None:
    """No name is needed before them."""
    assert token not in contents.redact(f"got {token} from the header")


def test_known_secrets_are_masked_anywhere() -> None:
    """A password that a program put into its log is found by its value."""
    text = "ERROR 1045: tried correcthorse for slurm@localhost"
    assert "correcthorse" not in contents.redact(text, ["correcthorse", "x"])


@pytest.mark.parametrize(
    "line",
    [
        "AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key",
        "StoragePass=/run/munge/munge.socket.2",
        "AccountingStoragePass   = (null)",
        "NodeName=c[1-2] CPUs=2 RealMemory=900 State=UNKNOWN",
        "PassEnvironment=LANG",
        "2026-11-20T12:00:00 slurmctld: error: Munge decode failed: Invalid credential",
        "3 tests passed: all",
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFMVs0kCdY3rsHPbC2V0oUZssjSIy32a8FSDCPMtvWp2 dev",
        "PasswordAuthentication=no",
        "passwd:         files systemd",
        "Vulnerability Spec store bypass:         Mitigation",
        "# * Basic Settings",
        "JobId=12 Reason=NonZeroExitCode keyboard: de monkey=banana",
        "docker run -u 1000:1000 nginx; journalctl -u slurmd -u munge; OLDPWD=/root",
        'Environment="SLURM_JWT_FILE=/etc/slurm/x.conf" "LANG=C"',
    ],
)
def test_what_helps_stays(line: str) -> None:
    """Paths, node lines and messages are not secrets."""
    assert contents.redact(line) == line


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("/etc/munge/munge.key", True),
        ("/etc/slurm/slurm.key", True),
        ("/etc/slurm/slurm.jwks", True),
        ("/etc/slurm/jwt_hs256.key", True),
        ("/var/lib/trainwright/secrets/database", True),
        ("/root/.ssh/config", True),
        ("/etc/mysql/debian.cnf", True),
        ("/etc/ssh/ssh_host_ed25519_key", True),
        ("/etc/slurm/slurm.conf", False),
        ("/etc/slurm/slurmdbd.conf", False),
        ("/var/log/slurm/slurmctld.log", False),
    ],
)
def test_files_of_secrets_are_left_out(path: str, refused: bool) -> None:
    """Their names tell."""
    assert contents.refuse(path) is refused


def test_secret_values_of_settings() -> None:
    """The database's password is read to find it in logs; a path is not a password."""
    text = "StoragePass=correcthorse\nStoragePass=/run/munge.socket\nStorageUser=slurm\n"
    assert contents.secret_values("/etc/slurm/slurmdbd.conf", text) == ["correcthorse"]
    assert contents.secret_values("/x/secrets/db", "hushhush\n") == ["hushhush"]
    quoted = 'StoragePass="correct horse"\n'
    assert contents.secret_values("/etc/slurm/slurmdbd.conf", quoted) == ["correct horse"]


def test_a_bundle_of_this_machine(tmp_path: pathlib.Path) -> None:
    """It contains commands and files, masked, and lists missing ones."""
    (tmp_path / "my.conf").write_text(f"a=1\nStoragePass={SECRET}\n")
    (tmp_path / "my.key").write_text(SECRET)
    result = collect.collect(
        {
            "days": 1,
            "log_mb": 1,
            "units": ["slurmd"],
            "extra_files": [str(tmp_path / "my.*")],
            "cluster": False,
            "facts": {"hostname": "c1"},
        }
    )
    with tarfile.open(result["path"]) as tar:
        names = tar.getnames()
        texts = {m.name: tar.extractfile(m).read().decode() for m in tar.getmembers()}  # type: ignore[union-attr]
    assert "commands/df.txt" in names
    assert texts[f"files{tmp_path}/my.conf"] == f"a=1\nStoragePass={contents.MASK}\n"
    assert f"files{tmp_path}/my.key" not in names
    assert f"{tmp_path}/my.key mode" in texts["left_out.txt"]
    assert not any(SECRET in text for text in texts.values())
    whole = tmp_path / "demo-support.tar.gz"
    joined = join.join({"c1": result["path"]}, ["c1", "c2"], str(whole))
    assert joined["missing"] == ["c2"]
    assert whole.stat().st_mode & 0o777 == 0o600
    with tarfile.open(whole) as tar:
        assert "demo-support/c1/node_facts.json" in tar.getnames()
        assert "demo-support/index.json" in tar.getnames()


@needs_root
def test_a_file_of_a_user_is_read_with_the_rights_of_the_user(
    open_directory: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "commands", lambda *_given: {})
    monkeypatch.setattr(contents, "LOGS", ())
    hidden, home = open_directory / "hidden", open_directory / "home"
    hidden.mkdir(0o700)
    (hidden / "notes").write_text(SECRET)
    home.mkdir()
    for name in ("a.out", "b.key"):
        (home / name).symlink_to(hidden / "notes")
    (home / "c.out").write_text("training")
    for path in (home, home / "c.out"):
        os.chown(path, 65534, 65534)
        path.chmod(0o700)
    given = {"days": 1, "log_mb": 1, "units": [], "cluster": False, "facts": {}}
    made = collect.collect({**given, "extra_files": [f"{home}/*"]})
    with tarfile.open(made["path"]) as tar:
        texts = {m.name: tar.extractfile(m).read().decode() for m in tar.getmembers()}  # type: ignore[union-attr]
    assert texts[f"files{home}/c.out"] == "training"
    assert not any(SECRET in text for text in texts.values())
    assert "Permission denied" in made["incomplete"][f"{home}/a.out"]
    assert f"{home}/b.key: [Errno 13] Permission denied" in texts["left_out.txt"]


def test_a_log_is_cut_at_a_line(tmp_path: pathlib.Path) -> None:
    """Half a line could hide the name before a secret."""
    log = tmp_path / "x.log"
    log.write_text("StoragePass=" + "s" * 100 + "\nlast line\n")
    shown = collect._read(str(log), 50)
    assert shown.endswith("]\nlast line\n")
    assert "sss" not in shown


@needs_root
def test_a_log_is_no_link_of_a_daemon_to_a_file_of_root(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slurm and mysql own the directories of their logs; links of root, and a rotated log, are no fault."""
    logs = {name: tmp_path / f"{name}.log" for name in ("own", "daemons", "roots", "pipe", "gone")}
    (tmp_path / "shadow").write_text("root:hash\n")
    (tmp_path / "elsewhere").write_text("moved away\n")
    logs["own"].write_text("hello\n")
    logs["daemons"].symlink_to(tmp_path / "shadow")
    os.lchown(logs["daemons"], 54321, 54321)
    logs["roots"].symlink_to(tmp_path / "elsewhere")
    os.mkfifo(logs["pipe"])
    monkeypatch.setattr(contents, "LOGS", ("logs",))
    monkeypatch.setattr(contents, "FILES", ())
    monkeypatch.setattr(contents, "commands", lambda *_given: {})
    monkeypatch.setattr(
        collect, "_paths", lambda given: [str(one) for one in logs.values()] if given else []
    )
    params = {"days": 1, "log_mb": 1, "units": [], "extra_files": [], "cluster": False, "facts": {}}
    result = collect.collect(params)
    with tarfile.open(result["path"]) as tar:
        names = tar.getnames()
    assert [one for one in ("own", "daemons", "roots", "pipe") if f"files{logs[one]}" in names] == [
        "own",
        "roots",
    ]
    said = {os.path.basename(name): why for name, why in result["incomplete"].items()}
    assert set(said) == {"daemons.log", "pipe.log", "gone.log"}
    assert "is a link of 54321 -> collect a copy" in said["daemons.log"]
