# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The local cluster tool, as far as it needs no container: input, layout, texts, detection."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "molecule")]

from driver import image
from driver.__main__ import check_containers, main, named, parser
from driver.cluster import Cluster
from driver.host import has_pure_cgroup2, is_namespace_mounted
from driver.image import (
    ARCHIVE,
    SECURITY,
    UBUNTU_MIRROR,
    Recipe,
    apt_options,
    debian_mirrors,
    recipe_for,
    ubuntu_mirrors,
)
from driver.layout import (
    MAX_COMPUTE,
    LocalError,
    Spec,
    free_subnet,
    hosts_of,
    inventory_text,
    seed_text,
    ssh_config_text,
    table,
    unique_name,
)

SUBNET = "10.89.10.0/24"
HYBRID = """\
25 20 0:22 / /sys rw,nosuid - sysfs sysfs rw
30 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
39 30 0:35 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
PURE = "30 25 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (Spec(os="ubuntu"), "OS=ubuntu: .* use OS=debian12 or OS=debian13 or OS=ubuntu2404"),
        (Spec(compute=0), "COMPUTE=0: out of range; use 1 to"),
        (Spec(compute=MAX_COMPUTE + 1), "COMPUTE=101"),
        (Spec(gpus=-1), "GPUS=-1: out of range; use 0 to"),
        (Spec(controllers=3), "CONTROLLERS=3: out of range; use 1 to 2"),
        (Spec(name="../x"), "NAME=../x: not a cluster name"),
        (Spec(name=""), "NAME=: not a cluster name"),
        (Spec(name="My"), "NAME=My"),
    ],
)
def test_bad_input_is_refused_in_one_line_with_its_remedy(spec: Spec, said: str) -> None:
    with pytest.raises(LocalError, match=said) as caught:
        spec.check()
    assert "use " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_defaults_and_limits_are_accepted() -> None:
    Spec().check()
    Spec("a1", "debian12", MAX_COMPUTE, 16, 2).check()


def test_containers_without_checksums_are_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[str] = []
    monkeypatch.setattr(Cluster, "create", lambda *_args, **_more: made.append("containers"))
    monkeypatch.delenv("TRAINWRIGHT_ARTIFACTS", raising=False)
    monkeypatch.setattr(sys, "argv", ["driver", "up", "--pyxis", "1", "--name", "refused"])
    assert main() == 1 and not made
    assert "PYXIS=1: there are no checksums" in (said := capsys.readouterr().err)
    assert "TRAINWRIGHT_ARTIFACTS" in said and "enroot_sha256" in said


def test_where_the_checksums_of_containers_come_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_ARTIFACTS", str(tmp_path))
    with pytest.raises(LocalError, match="no SHA256SUMS there; use a directory with"):
        check_containers(tmp_path)
    (tmp_path / "SHA256SUMS").touch()
    check_containers(tmp_path)
    monkeypatch.delenv("TRAINWRIGHT_ARTIFACTS")
    (tmp_path / "all.yml").write_text("enroot_sha256:\n  a.deb: 00\n")
    check_containers(tmp_path)


def test_every_subcommand_takes_a_name() -> None:
    for words in ("up", "create", "down", "status", "shell", "kill c1", "add-compute 2"):
        args = parser().parse_args([*words.split(), "--name", "dev"])
        assert args.name == "dev"
    args = parser().parse_args(["exec", "--name", "dev", "c1", "ls", "-l"])
    assert (args.host, args.command) == ("c1", ["ls", "-l"])


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["c1", "--name", "dev", "ls", "-l"], ("dev", ["ls", "-l"])),
        (["c1", "--name=dev", "--", "ls", "--name", "x"], ("dev", ["ls", "--name", "x"])),
        (["--name", "dev", "c1", "ps", "--name=x"], ("dev", ["ps", "--name=x"])),
        (["--name", "dev", "c1", "--", "--name"], ("dev", ["--name"])),
        (["c1", "--name"], ("local", ["--name"])),
        (["c1"], ("local", [])),
    ],
)
def test_the_name_of_exec_is_before_or_behind_the_host(
    words: list[str], wanted: tuple[str, list[str]]
) -> None:
    args = parser().parse_args(["exec", *words])
    assert args.host == "c1" and named(args.name, args.command) == wanted


def test_largest_cluster_has_distinct_addresses_within_its_subnet() -> None:
    hosts = hosts_of(Spec(compute=MAX_COMPUTE, controllers=2, database=True), SUBNET)
    assert len({h.address for h in hosts}) == len({h.mac for h in hosts}) == len(hosts) == 104
    assert all(h.address.startswith("10.89.10.") for h in hosts)
    assert [h.name for h in hosts[:4]] == ["ctl1", "ctl2", "db1", "login1"]


def test_adding_nodes_keeps_the_addresses_of_those_that_stand() -> None:
    small, large = (hosts_of(Spec(compute=n), SUBNET) for n in (2, 5))
    assert large[: len(small)] == small


def test_only_compute_nodes_have_gpus() -> None:
    assert {h.role: h.gpus for h in hosts_of(Spec(gpus=8), SUBNET)} == {
        "controller": 0,
        "login": 0,
        "compute": 8,
    }


def test_free_subnet_avoids_what_overlaps() -> None:
    first = free_subnet("local-123456", [])
    assert first == free_subnet("local-123456", ["192.168.0.0/16"])
    second = free_subnet("local-123456", [first])
    host_in_second = second.replace(".0/24", ".7")
    assert len({first, second, free_subnet("local-123456", [first, host_in_second])}) == 3
    assert free_subnet("local-123456", ["10.89.0.0/17"]) == free_subnet(
        "local-123456", ["10.89.10.0/24", "10.89.0.0/17"]
    )
    with pytest.raises(LocalError, match="no free network"):
        free_subnet("local-123456", ["10.0.0.0/8"])


def test_last_free_subnet_is_found_wherever_the_search_starts() -> None:
    taken = [f"10.89.{third}.0/24" for third in range(10, 255) if third != 77]
    assert free_subnet("local-123456", taken) == "10.89.77.0/24"
    assert free_subnet("dev-abcdef", taken) == "10.89.77.0/24"


def test_clones_of_one_machine_share_no_name_and_no_subnet() -> None:
    here, there = (Cluster("local", root=Path("/srv") / name / "slurm") for name in ("a", "b"))
    assert here.unique != there.unique
    assert here.control_dir != there.control_dir
    assert free_subnet(here.unique, []) != free_subnet(there.unique, [])
    assert Cluster("local", root=Path("/srv/a/slurm")).unique == here.unique
    assert unique_name("dev", Path("/srv")) != unique_name("local", Path("/srv"))


def test_a_destroyed_cluster_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Cluster("gone", root=tmp_path)
    made.control_dir = tmp_path / "cp" / made.unique
    for directory in (made.control_dir, made.directory):
        directory.mkdir(parents=True)
    monkeypatch.setattr("driver.host.check_host", lambda: None)
    monkeypatch.setattr(Cluster, "containers", lambda _self: {})
    monkeypatch.setattr(Cluster, "_remove_network", lambda _self: [])
    assert made.destroy() is True
    assert not made.control_dir.exists() and not made.directory.exists()
    assert made.destroy() is False
    monkeypatch.setattr(Cluster, "_remove_network", lambda _self: ["gone"])
    assert made.destroy() is True


def test_destroying_a_cluster_that_is_not_there_fails_and_names_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("driver.__main__.Cluster", lambda name: Cluster(name, root=tmp_path))
    monkeypatch.setattr("driver.host.check_host", lambda: None)
    monkeypatch.setattr(Cluster, "containers", lambda _self: {})
    monkeypatch.setattr(Cluster, "_remove_network", lambda _self: [])
    monkeypatch.setattr("sys.argv", ["driver", "down", "--name", "locl"])
    assert main() == 1
    assert capsys.readouterr().err.endswith("so nothing was removed; there is none here\n")
    for name in ("local", "two"):
        (tmp_path / ".cluster" / name).mkdir(parents=True)
        (tmp_path / ".cluster" / name / "cluster.json").touch()
    assert main() == 1
    said = capsys.readouterr().err
    assert "error: there is no cluster named locl, so nothing was removed;" in said
    assert said.endswith("those that there are: local, two\n")
    monkeypatch.setattr("sys.argv", ["driver", "down", "--name", "locl", "--absent-ok"])
    assert main() == 0
    monkeypatch.setattr("sys.argv", ["driver", "down", "--name", "two"])
    assert main() == 0
    assert not (tmp_path / ".cluster" / "two").exists()


def test_ssh_config_names_every_host_and_checks_its_key() -> None:
    hosts = hosts_of(Spec(compute=1), SUBNET)
    text = ssh_config_text(hosts, "/k", "/known", "/run/cp")
    assert "Host c1 10.89.10.101\n  HostName 10.89.10.101\n" in text
    assert "  StrictHostKeyChecking yes\n" in text
    assert "  UserKnownHostsFile /known\n" in text
    assert "  IdentityFile /k\n" in text


def test_bare_hosts_belong_to_no_cluster() -> None:
    spec = Spec("node_base", bare=2)
    hosts = hosts_of(spec, SUBNET)
    assert [host.name for host in hosts] == ["bare1", "bare2"]
    text = inventory_text(spec, hosts, "/k", "/known", "/run/cp", "ssh-ed25519 AAAA x\n")
    everything = yaml.safe_load(text)["all"]
    assert list(everything["hosts"]) == ["bare1", "bare2"]
    assert "children" not in everything


@pytest.mark.parametrize(("apart", "database"), [(True, "db1"), (False, "ctl1")])
def test_inventory_has_the_groups_and_keeps_host_key_checking(apart: bool, database: str) -> None:
    spec = Spec(compute=2, controllers=2, database=apart)
    hosts = hosts_of(spec, SUBNET)
    text = inventory_text(spec, hosts, "/k", "/known", "/run/cp", "ssh-ed25519 AAAA x\n")
    everything = yaml.safe_load(text)["all"]
    assert everything["hosts"]["c2"] == {"ansible_host": "10.89.10.102"}
    groups = everything["children"]["slurm_cluster"]["children"]
    assert {name: list(group["hosts"]) for name, group in groups.items()} == {
        "slurm_controller": ["ctl1", "ctl2"],
        "slurm_database": [database],
        "slurm_login": ["login1"],
        "slurm_compute": ["c1", "c2"],
        "slurm_rest": ["ctl1"],
    }
    variables = everything["vars"]
    assert "StrictHostKeyChecking=yes" in variables["ansible_ssh_args"]
    assert "UserKnownHostsFile=/known" in variables["ansible_ssh_args"]
    assert variables["local_cluster_ssh_public_key"] == "ssh-ed25519 AAAA x"


def test_seed_makes_devices_and_keys_at_every_start() -> None:
    host = hosts_of(Spec(compute=1, gpus=2), SUBNET)[-1]
    lines = seed_text(host, "public\n", "secret\nkey\n", "host public\n").splitlines()
    assert "c! /dev/nvidia1 0666 root root - 195:1" in lines
    assert not any("/dev/nvidia2" in line for line in lines)
    private = next(line for line in lines if "ssh_host_ed25519_key " in line)
    assert private.split()[2] == "0600"
    assert base64.b64decode(private.split()[-1]) == b"secret\nkey\n"


@pytest.mark.parametrize(
    ("mountinfo", "pure"),
    [(HYBRID, False), (PURE, True), (HYBRID + PURE, True), ("", False)],
    ids=["hybrid", "v2", "v2 over hybrid", "nothing mounted"],
)
def test_cgroup_detection(mountinfo: str, pure: bool) -> None:
    assert has_pure_cgroup2(mountinfo) is pure


def test_namespace_file_counts_only_when_a_namespace_is_pinned_there() -> None:
    pinned = "70 69 0:4 mnt:[4026532177] /run/trainwright/ns/mnt rw - nsfs nsfs rw\n"
    path = Path("/run/trainwright/ns/mnt")
    assert is_namespace_mounted(HYBRID + pinned, path)
    assert not is_namespace_mounted(HYBRID, path)


def test_mirrors_come_from_the_hosts_sources_in_both_formats() -> None:
    deb822 = (
        "Types: deb\n# URIs: http://old/debian\nURIs: http://mirror/debian/\n"
        "Suites: bookworm bookworm-updates\nComponents: main\n\n"
        "Types: deb\nURIs: http://mirror/security\nSuites: bookworm-security\n"
    )
    assert debian_mirrors([deb822]) == ("http://mirror/debian", "http://mirror/security")
    one_line = "deb [signed-by=/k] https://m/debian trixie main\n"
    one_line += "deb http://x/sec trixie-security main\n"
    assert debian_mirrors([one_line]) == ("https://m/debian", "http://x/sec")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "deb cdrom:[x]/ bookworm main",
        "deb http://archive.ubuntu.com/ubuntu noble main",
        "# deb http://mirror/debian trixie main",
        "Types: deb\nEnabled: no\nURIs: http://mirror/debian\nSuites: trixie\n",
    ],
)
def test_debians_own_archive_stands_in_where_the_host_names_none(text: str) -> None:
    assert debian_mirrors([text]) == (ARCHIVE, SECURITY)


UBUNTU = """\
Types: deb
URIs: http://de.archive.example/ubuntu/
Suites: noble noble-updates
Components: main universe

Types: deb
URIs: http://security.example/ubuntu
Suites: noble-security
Components: main universe
"""


def test_ubuntus_mirror_is_the_one_that_is_given_or_apts() -> None:
    assert ubuntu_mirrors([UBUNTU], "") == (
        "http://de.archive.example/ubuntu",
        "http://security.example/ubuntu",
    )
    assert ubuntu_mirrors(["deb http://m/ubuntu jammy main\n"], "") == ("http://m/ubuntu",) * 2
    assert ubuntu_mirrors([UBUNTU], "http://mine/ubuntu/") == ("http://mine/ubuntu",) * 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", f"no Ubuntu archive is named .*; set {UBUNTU_MIRROR} to the address of one"),
        ("mirror/ubuntu", f"{UBUNTU_MIRROR}=mirror/ubuntu: not an address; use one that begins"),
    ],
)
def test_no_archive_of_ubuntu_is_made_up(given: str, said: str) -> None:
    with pytest.raises(LocalError, match=said) as caught:
        ubuntu_mirrors(["deb http://deb.debian.org/debian trixie main\n"], given)
    assert "\n" not in str(caught.value)


def test_without_an_archive_of_ubuntu_nothing_is_built(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make cluster OS=ubuntu2404` ends with one line that names the variable, and leaves nothing."""
    monkeypatch.setenv(UBUNTU_MIRROR, "mirror")
    monkeypatch.setattr("driver.host.check_host", lambda: None)
    monkeypatch.setattr(image, "build", lambda *_args: pytest.fail("an image is built"))
    monkeypatch.setattr(sys, "argv", ["driver", "up", "--name=noarchive", "--os=ubuntu2404"])
    assert main() == 1
    errors = capsys.readouterr().err.strip().splitlines()
    assert len(errors) == 1 and errors[0].startswith(f"error: {UBUNTU_MIRROR}=mirror: ")
    assert not (ROOT / ".cluster" / "noarchive").exists()


def test_an_archive_that_does_not_answer_leaves_no_half_of_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(UBUNTU_MIRROR, "http://127.0.0.1:1/ubuntu")
    monkeypatch.setattr(image, "is_imported", lambda _recipe: False)
    monkeypatch.setattr(image, "_ubuntu_keys", lambda _directory: Path("/keys"))

    def fails(argv: list[str]) -> None:
        Path(next(word for word in argv if word.endswith(".part.tar"))).write_text("half")
        raise LocalError("mmdebstrap ended with 100: cannot connect")

    recipe = Recipe("ubuntu2404", "http://127.0.0.1:1/ubuntu", "http://127.0.0.1:1/ubuntu")
    monkeypatch.setattr(image, "run", fails)
    with pytest.raises(LocalError, match=rf"{UBUNTU_MIRROR} to another: .*cannot connect"):
        image.build(recipe, tmp_path)
    assert not list(tmp_path.iterdir())


def test_ubuntus_image_has_its_components_and_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(UBUNTU_MIRROR, "http://m/ubuntu")
    recipe = recipe_for("ubuntu2404")
    command = recipe.mmdebstrap(Path("/x.tar"), Path("/keys.gpg"))
    assert "--keyring=/keys.gpg" in command and "noble" in command
    assert command[-3:] == [
        f"deb http://m/ubuntu noble{pocket} main universe"
        for pocket in ("", "-updates", "-security")
    ]
    # There it is not part of every system.
    assert "apt" in recipe.packages


def test_apt_settings_are_taken_over_but_no_proxy_on_loopback() -> None:
    dump = (
        'Acquire::http::Proxy "http://proxy:3142";\nAcquire::https::Proxy "http://127.0.0.1:3142";\n'
        'Acquire::Check-Date "false";\nAcquire::Languages:: "de";\n'
    )
    assert apt_options(dump) == (
        'Acquire::http::Proxy "http://proxy:3142";',
        'Acquire::Check-Date "false";',
        'Acquire::Languages "none";',
    )


def test_an_image_is_reused_only_for_the_same_recipe() -> None:
    recipe = Recipe("debian13")
    assert recipe.name == Recipe("debian13").name
    assert recipe.name != Recipe("debian13", archive="http://mirror/debian").name
    assert recipe.name != Recipe("debian12").name
    assert not any("slurm" in word for word in recipe.mmdebstrap(Path("/x.tar")))


def test_asking_for_a_cluster_that_is_not_there_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="make one: make cluster NAME=none"):
        Cluster("none", root=tmp_path).addresses  # noqa: B018


def test_an_unknown_host_is_refused_with_those_that_are(tmp_path: Path) -> None:
    cluster = Cluster("some", root=tmp_path)
    cluster.directory.mkdir(parents=True)
    (cluster.directory / "cluster.json").write_text(
        '{"spec": {"name": "some", "compute": 1}, "subnet": "10.89.10.0/24"}', encoding="utf-8"
    )
    assert cluster.container("c1") == f"{cluster.unique}-c1"
    with pytest.raises(LocalError, match="c9: no host of cluster some; it has ctl1, login1, c1"):
        cluster.container("c9")


def test_table_aligns_columns() -> None:
    assert table([["A", "B"], ["long", "x"]]) == "A     B\nlong  x"
