# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""deb_packages with an apt-get that notes what it was asked for, and whether services could start meanwhile."""

from __future__ import annotations

import os
import shutil
import time
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.trainwright.slurm.plugins.modules import deb_packages

from tests.unit.scratch_apt import ScratchApt
from tests.unit.scratch_dpkg import ScratchDpkg

ROOT = Path(__file__).resolve().parents[4]
APT = """#!/bin/sh
policy=none; [ ! -x {state}/policy-rc.d ] || {{ {state}/policy-rc.d; policy=$?; }}
case "$*" in
    *update*) echo "update $policy" >>{state}/log; touch {state}/fetched; exit 0 ;;
    *simulate*) cat {state}/simulated; exit ;;
esac
echo "install ${{*#* install }} $policy" >>{state}/log
[ ! -e {state}/unbuilt ] || {{ cat {state}/unbuilt >&2; exit 100; }}
[ ! -e {state}/broken ] || {{ echo "E: held broken packages" >&2; exit 100; }}
[ -e {state}/fetched ] || {{ echo "E: Unable to locate package jq" >&2; exit 100; }}
[ -e {state}/pinned ] || printf 'installed\\tjq\\tamd64\\t1.7\\t\\n' >>{state}/status
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is the state of a host with munge, and lists that were just fetched."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name, text in (("apt-get", APT), ("dpkg-query", "#!/bin/sh\ncat {state}/status\n")):
        program = binaries / name
        program.write_text(text.format(state=tmp_path))
        program.chmod(0o755)
    (tmp_path / "status").write_text("installed\tmunge\tamd64\t0.5.16\t\n")
    (tmp_path / "fetched").touch()
    monkeypatch.setenv("PATH", f"{binaries}:/usr/bin:/bin")
    monkeypatch.setattr(deb_packages.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(deb_packages, "POLICY", str(tmp_path / "policy-rc.d"))
    monkeypatch.setattr(deb_packages, "STAMPS", (str(tmp_path / "none"), str(tmp_path / "fetched")))
    return tmp_path


def run(check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    given = {"names": ["munge", "jq"], "_ansible_check_mode": check, **options}
    results: list[dict[str, t.Any]] = []

    def end(_self: object, **result: t.Any) -> t.NoReturn:
        results.append(result)
        raise SystemExit

    def fail(_self: object, msg: str, **result: t.Any) -> t.NoReturn:
        end(_self, failed=True, msg=msg, **result)

    with (
        patch_module_args(given),
        pytest.MonkeyPatch.context() as patch,
        pytest.raises(SystemExit),
    ):
        patch.setattr(deb_packages.AnsibleModule, "exit_json", end)
        patch.setattr(deb_packages.AnsibleModule, "fail_json", fail)
        deb_packages.main()
    return results[0]


def asked(host: Path) -> list[str]:
    log = host / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_it_installs_what_is_missing_without_starting_it_and_then_nothing(host: Path) -> None:
    result = run()
    assert result["changed"] and result["missing"] == ["jq"]
    assert asked(host) == ["install jq 101"]
    assert not (host / "policy-rc.d").exists()
    again = run()
    assert again["changed"] is False and again["missing"] == [] and len(asked(host)) == 1


def test_check_mode_says_it_and_does_nothing(host: Path) -> None:
    result = run(check=True)
    assert result["changed"] and result["diff"]["after"] == "jq\n"
    assert not asked(host) and not (host / "policy-rc.d").exists()


def test_lists_that_are_old_or_not_to_be_trusted_are_fetched_first(host: Path) -> None:
    day_ago = time.time() - 90000
    os.utime(host / "fetched", (day_ago, day_ago))
    run()
    assert asked(host) == ["update 101", "install jq 101"]
    (host / "log").unlink()
    (host / "status").write_text("")
    run(names=["jq"], lists_age=0)
    assert asked(host) == ["update 101", "install jq 101"]


def test_lists_without_the_package_are_fetched_once_it_failed(host: Path) -> None:
    (host / "fetched").rename(host / "none")  # the stamp of Ubuntu is new, the lists are gone
    assert run()["changed"]
    assert asked(host) == ["install jq 101", "update 101", "install jq 101"]


def test_an_apt_that_refuses_is_quoted_after_four_attempts(host: Path) -> None:
    (host / "broken").touch()
    result = run()
    assert result["failed"] and "held broken packages" in result["msg"] and " -> " in result["msg"]
    assert len([line for line in asked(host) if line.startswith("install")]) == 4
    assert not (host / "policy-rc.d").exists()


def test_the_first_error_of_apt_is_not_cut_off(host: Path) -> None:
    apt = host / "bin" / "apt-get"
    lines = "".join(f"E: Failed to fetch http://x/{n}.deb  404  Not Found\n" for n in range(9))
    (host / "said").write_text(f"E: The repository 'http://x ./ Release' is not signed.\n{lines}")
    apt.write_text(f"#!/bin/sh\ncat {host}/said >&2\nexit 100\n")
    message = run()["msg"]
    assert message.startswith(
        "apt-get install jq: exit 100: The repository 'http://x ./ Release' is not signed; Failed"
    )
    assert message.endswith(" -> correct the key of that repository on the host")


def test_a_package_that_is_missing_all_the_same_is_an_error(host: Path) -> None:
    (host / "pinned").touch()
    result = run()
    assert result["failed"] and result["msg"].startswith("jq: not installed")


def test_the_policy_of_the_host_comes_back(host: Path) -> None:
    policy = host / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 0\n")
    policy.chmod(0o755)
    run()
    assert asked(host) == ["install jq 101"] and policy.read_text() == "#!/bin/sh\nexit 0\n"


def test_the_policy_of_a_run_that_was_killed_does_not_stay(host: Path) -> None:
    policy, saved = host / "policy-rc.d", host / f"policy-rc.d{deb_packages.SAVED}"
    policy.write_text(deb_packages.OWN_POLICY)
    assert run(names=["munge"], check=True)["changed"] and policy.exists()
    assert run(names=["munge"])["changed"] and not policy.exists()
    assert run(names=["munge"])["changed"] is False
    policy.write_text(deb_packages.OWN_POLICY)
    saved.write_text("#!/bin/sh\nexit 0\n")
    run()
    assert policy.read_text() == "#!/bin/sh\nexit 0\n" and not saved.exists()


# -- packages on hold --------------------------------------------------------------------------------
SIMULATED = """Reading package lists...
Inst nvidia-open [580.95.05-1] (595.91.07-1 x [all]) []
Remv libold:i386 [1-1]
Inst jq (1.7 x [amd64])
Conf jq (1.7 x [amd64])
"""


def hold(host: Path, *packages: str) -> None:
    lines = (f"installed\t{name}\tall\t580.95.05-1\t\thold\n" for name in packages)
    (host / "status").write_text("".join(lines))


@pytest.mark.parametrize("given", [{}, {"fetch_only": True}, {"check": True}])
def test_a_package_that_somebody_holds_is_not_changed(host: Path, given: dict[str, t.Any]) -> None:
    """Also one that only a dependency would change, and one that would be removed."""
    hold(host, "nvidia-open", "libold", "bash")
    (host / "simulated").write_text(SIMULATED)
    result = run(names=["jq"], **given)
    assert result["failed"] and not asked(host)
    assert result["msg"].startswith("libold 580.95.05-1, nvidia-open 580.95.05-1: held by somebody")
    assert "apt-mark unhold libold nvidia-open on the host" in result["msg"]


def test_a_held_package_that_nothing_changes_is_in_nobodys_way(host: Path) -> None:
    hold(host, "bash")
    (host / "simulated").write_text(SIMULATED)
    assert run(names=["jq"])["changed"] and asked(host) == ["install jq 101"]
    hold(host, "jq")
    (host / "simulated").unlink()
    assert not run(names=["jq"])["changed"], "it is there"
    result = run(names=["jq=1.8"])
    assert result["failed"] and "jq 580.95.05-1: held" in result["msg"], "apt does not know"


@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt")
@pytest.mark.parametrize("held", ["libdriver", "driver", ""])
def test_real_apt_names_a_held_package(host: Path, held: str) -> None:
    """By itself it would say that it cannot correct problems, after four attempts."""
    for name in ("etc/preferences.d", "state/lists/partial", "cache/archives/partial", "repo"):
        (host / name).mkdir(parents=True)

    def listed(version: str, status: str = "") -> str:
        fields = "Architecture: all\nMaintainer: x\nDescription: x\n"
        depends = {"driver": f"Depends: libdriver (= {version})\n"}
        return "\n".join(
            f"Package: {name}\nVersion: {version}\n{depends.get(name, '')}{fields}"
            + (status.format("hold" if name == held else "install") if status else
               f"Filename: ./{name}.deb\nSize: 1\nSHA256: {'0' * 64}\n")
            for name in ("driver", "libdriver")
        )  # fmt: skip

    (host / "repo" / "Packages").write_text(listed("595.91.07-1"))
    (host / "status").write_text(listed("580.95.05-1", "Status: {} ok installed\n"))
    (host / "etc" / "sources.list").write_text(f"deb [trusted=yes] file:{host}/repo ./\n")
    options = f"-oDir::Etc={host}/etc -oDir::State={host}/state -oDir::State::status={host}/status"
    options += (
        f" -oDir::Cache={host}/cache -oDir::Etc::sourceparts=/dev/null -oAPT::Sandbox::User=root"
    )
    (host / "bin" / "apt-get").write_text(f'#!/bin/sh\nexec /usr/bin/apt-get {options} "$@"\n')
    query = f'#!/bin/sh\nexec /usr/bin/dpkg-query --admindir={host} "$@"\n'
    (host / "bin" / "dpkg-query").write_text(query)
    result = run(names=["driver=595.91.07[-+.]*?"], fetch_only=True, lists_age=0)
    assert result["failed"]
    named = f"{held} 580.95.05-1: held by somebody" in result["msg"]
    # Without a hold it is the package's file that is missing.
    assert named == bool(held) and ("driver.deb" in result["msg"]) == (not held), result["msg"]


@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt")
def test_real_apt_brings_back_a_dependency_and_names_what_it_knows(host: Path) -> None:
    """driver is there, and somebody has removed its library with dpkg --force-depends."""
    for name in ("etc/preferences.d", "state/lists/partial", "cache/archives/partial", "repo"):
        (host / name).mkdir(parents=True)
    common = "Version: 595-1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    driver = f"Package: driver\nDepends: libdriver (= 595-1)\n{common}"
    file = f"Filename: ./x.deb\nSize: 1\nSHA256: {'0' * 64}\n"
    listed = f"{driver}{file}\nPackage: libdriver\n{common}{file.replace('x.deb', 'libdriver.deb')}"
    (host / "repo" / "Packages").write_text(listed)
    (host / "status").write_text(f"{driver}Status: install ok installed\n")
    (host / "etc" / "sources.list").write_text(f"deb [trusted=yes] file:{host}/repo ./\n")
    options = f"-oDir::Etc={host}/etc -oDir::State={host}/state -oDir::State::status={host}/status"
    options += (
        f" -oDir::Cache={host}/cache -oDir::Etc::sourceparts=/dev/null -oAPT::Sandbox::User=root"
    )
    for tool in ("apt-get", "apt-cache"):
        (host / "bin" / tool).write_text(f'#!/bin/sh\nexec /usr/bin/{tool} {options} "$@"\n')
        (host / "bin" / tool).chmod(0o755)
    query = f'#!/bin/sh\nexec /usr/bin/dpkg-query --admindir={host} "$@"\n'
    (host / "bin" / "dpkg-query").write_text(query)
    looked = run(names=["driver"], check=True)
    assert looked["changed"] and looked["missing"] == ["libdriver=595-1"]
    assert not run(names=["driver"], fetch_only=True)["changed"], "the boot brings another version"
    result = run(names=["driver"], lists_age=0)
    # The repository of this test has the name of the file and no file.
    assert result["failed"] and "libdriver.deb" in result["msg"], result["msg"]
    result = run(names=["libdriver=13.2.99[-+.]*?"], fetch_only=True)
    assert result["failed"] and "gives 13.2.99[-+.]*?, known: 595-1" in result["msg"], result["msg"]
    assert "Version '13.2.99[-+.]*?' for 'libdriver' was not found" in result["msg"]
    assert run(names=["driver"], check=True)["missing"] == ["libdriver=595-1"], (
        "nothing was changed"
    )
    warned: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deb_packages.AnsibleModule, "warn", lambda _self, text: warned.append(text))
        for name in ("libdriver=13.2.99[-+.]*?", "libdriver=595-1", "of-another-repository=1"):
            assert run(names=[name], check=True)["changed"]
    [text] = warned
    assert text.startswith("check mode: (libdriver: no repository of this host gives 13.2.99")


@pytest.mark.parametrize("fetch_only", [True, False])
def test_apt_is_never_told_to_override_a_hold(host: Path, fetch_only: bool) -> None:
    apt = host / "bin" / "apt-get"
    apt.write_text(apt.read_text().replace("#!/bin/sh\n", f'#!/bin/sh\necho "$*" >>{host}/words\n'))
    run(fetch_only=fetch_only)
    assert "held" not in (host / "words").read_text()
    boot = (ROOT / "roles" / "gpu_stack" / "templates" / "gpu-stack.j2").read_text()
    assert "apt-get --yes" in boot and "change-held" not in boot


@pytest.mark.skipif(not shutil.which("apt-get"), reason="no apt")
def test_real_apt_fetches_by_the_pins_of_the_boot(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of now hold what serves, so apt would find no solution. An administrator's own pins count for both."""
    old, new = "595.91.07-1", "595.112.07-1"
    listed = [
        ("driver", new, f"libdriver (= {new}), site-tool (= 1)"),
        ("libdriver", new, ""),
        *(("site-tool", text, "") for text in ("1", "2")),
    ]
    serves = [("driver", old, ""), ("libdriver", old, "")]
    apt = ScratchApt(host / "apt", listed, serves)
    form = "Package: {}\nPin: version {}\nPin-Priority: {}\n\n"
    (apt.preferences / "site").write_text(form.format("site-tool", "1", 1001))
    for path, version in ((apt.preferences / "ours", old), (host / "ours", new)):
        rows = ((version, 1001), ("*", -1))
        path.write_text("".join(form.format("driver libdriver", *row) for row in rows))
    monkeypatch.setattr(deb_packages, "PINS", str(apt.preferences))
    monkeypatch.delenv("APT_CONFIG", raising=False)
    options = " ".join(apt.options)
    (host / "bin" / "apt-get").write_text(f'#!/bin/sh\nexec /usr/bin/apt-get {options} "$@"\n')
    (host / "status").write_text(f"installed\tdriver\tall\t{old}\t\n")
    given: dict[str, t.Any] = {"names": [f"driver={new}"], "fetch_only": True, "check": True}
    assert run(**given)["diff"]["after"] == f"driver={new} (fetched)\n", "no solution"
    files = run(**given, boot_pins=str(host / "ours"))["diff"]["after"]
    assert files.count("(fetched)") == 3 and "site-tool" in files and "=" not in files
    assert "APT_CONFIG" not in os.environ


# -- a package manager that was killed ---------------------------------------------------------------
@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScratchDpkg:
    """Real dpkg and apt on a root of their own."""
    if not shutil.which("apt-get") or os.getuid():
        pytest.skip("no apt, or not root")
    made = ScratchDpkg(tmp_path)
    monkeypatch.setenv("PATH", f"{made.bin}:/usr/sbin:/usr/bin:/sbin:/bin")
    monkeypatch.setattr(deb_packages, "POLICY", str(tmp_path / "policy-rc.d"))
    monkeypatch.setattr(deb_packages, "STAMPS", (str(made.repository),))
    monkeypatch.setattr(deb_packages, "DELAYS", ())
    monkeypatch.setattr(
        deb_packages.dpkg_repair.interrupted,
        "__defaults__",
        (f"{made.root}/var/lib/dpkg/updates/[0-9]*",),
    )
    return made


def killed(real: ScratchDpkg, script: str, *asked: str) -> None:
    """Have drv 1 and lib 1, and an upgrade of what is asked for, in which drv's script ends dpkg."""
    for version in ("1", "2"):
        real.package("lib", version)
        real.package("drv", version, f"lib (= {version})", killer=script)
    real.index()
    real.run("apt-get", "--yes", "install", "drv=1", "lib=1")
    for name in ("drv", "lib"):
        real.edit(name)
    real.kill.touch()
    options = [f"-oDpkg::Options::=--force-conf{word}" for word in ("def", "old")]
    real.run("apt-get", "--yes", *options, "install", *asked, check=False)
    real.kill.unlink()
    said = real.run("apt-get", "--yes", "install", "lib", check=False)
    assert "dpkg was interrupted" in said, "apt refuses everything"


def of_the_site(real: ScratchDpkg) -> bool:
    paths = (real.root / "etc" / name / "conf" for name in ("drv", "lib"))
    return {path.read_text() for path in paths} == {"of the site\n"}


@pytest.mark.parametrize("script", ["postinst", "preinst"])
def test_a_killed_installation_is_taken_up(real: ScratchDpkg, script: str) -> None:
    """While a package is configured, and while it is unpacked, which leaves it half-installed."""
    killed(real, script, "drv=2", "lib=2")
    before = real.states()
    given: dict[str, t.Any] = {"names": ["drv=2", "lib=2"]}
    assert run(check=True, **given)["changed"] and real.states() == before
    result = run(**given)
    assert not result.get("failed") and result["changed"], result
    assert real.states() == {"drv": "ii 2", "lib": "ii 2"} and of_the_site(real)
    assert not run(**given)["changed"]


def test_a_killed_installation_of_somebody_else_is_taken_up_too(real: ScratchDpkg) -> None:
    """Nothing that is asked for is missing, and apt would refuse the next installation."""
    killed(real, "preinst", "drv=2", "lib=2")
    assert real.states()["drv"] == "iHR 1"
    given: dict[str, t.Any] = {"names": ["lib"]}
    assert run(check=True, **given)["changed"] and real.states()["drv"] == "iHR 1"
    result = run(**given)
    assert result["changed"] and result["missing"] == []
    assert real.states() == {"drv": "ii 1", "lib": "ii 1"}, "unpacked again, and no upgrade"
    assert of_the_site(real) and not run(**given)["changed"]


@pytest.mark.parametrize("name", ["drv", "new"])
@pytest.mark.parametrize(("damaged", "listed"), [(False, True), (False, False), (True, True)])
def test_a_package_that_was_unpacked_before_what_it_needs_is_taken_up(
    real: ScratchDpkg, name: str, listed: bool, damaged: bool
) -> None:
    """dpkg does not configure it, and apt would not install anything beside it. damaged: it is not unpacked whole."""
    real.package("lib", "1")
    real.package("drv", "1", "lib (= 1)", killer="preinst")
    real.package("new", "1")
    real.index()
    if not listed:
        shutil.rmtree(real.root / "var/lib/apt/lists")
    if damaged:
        real.kill.touch()
    real.run("dpkg", "--unpack", str(real.repository / "drv_1_all.deb"), check=False)
    real.kill.unlink(missing_ok=True)
    assert real.states() == {"drv": "iHR 1" if damaged else "iU 1"}
    assert run(check=True, names=[name])["changed"]
    result = run(names=[name])
    assert result.get("changed"), result
    both = {"drv": "ii 1", "lib": "ii 1"}
    assert real.states() == (both if name == "drv" else {**both, "new": "ii 1"})
    assert not run(names=[name])["changed"]


def test_the_version_that_was_replaced_may_be_gone(real: ScratchDpkg) -> None:
    killed(real, "preinst", "drv=2", "lib=2")
    (real.repository / "drv_1_all.deb").unlink()
    real.index()
    result = run(names=["drv=2"])
    assert result.get("changed"), result
    assert real.states() == {"drv": "ii 2", "lib": "ii 2"} and of_the_site(real)


def test_what_cannot_be_unpacked_again_has_its_remedy(real: ScratchDpkg) -> None:
    killed(real, "preinst", "drv=2", "lib=2")
    real.package("new", "1")
    for path in real.repository.glob("drv_*.deb"):
        path.unlink()
    real.index()
    message = run(names=["new"])["msg"]
    assert "The package drv needs to be reinstalled, but I can't find an archive for it" in message
    assert message.endswith(
        "-> dpkg --remove --force-remove-reinstreq drv on the host, and run this again"
    )
    assert of_the_site(real)


# -- kernel modules ----------------------------------------------------------------------------------
def modinfo(host: Path, version: str) -> None:
    """Have a module on disk in a version."""
    program = host / "bin" / "modinfo"
    program.write_text(f"#!/bin/sh\necho {version}\n")
    program.chmod(0o755)


def dkms(host: Path, version: str, text: str = "") -> None:
    """Have a dkms that builds a version, or prints a text."""
    program = host / "bin" / "dkms"
    built = f"echo '#!/bin/sh\necho {version}' >{host}/bin/modinfo" if version else f"echo '{text}'"
    program.write_text(f'#!/bin/sh\necho "dkms $*" >>{host}/log\n{built}\n')
    program.chmod(0o755)


def test_a_module_that_the_kernel_has_is_not_built(host: Path) -> None:
    modinfo(host, "595.91.07")
    dkms(host, "")
    assert not run(names=["munge"], modules={"nvidia": "595.91.07"})["changed"]
    assert not asked(host)


def test_a_module_that_the_kernel_lacks_is_built(host: Path) -> None:
    """As after a boot of another kernel, whose headers came later."""
    modinfo(host, "580.95.05")
    dkms(host, "595.91.07")
    given: dict[str, t.Any] = {"names": ["munge"], "modules": {"nvidia": "595.91.07"}}
    assert run(check=True, **given)["changed"] and not asked(host)
    result = run(**given)
    assert result["changed"] and result["diff"]["after"] == "kernel module nvidia\n"
    assert asked(host) == [f"dkms autoinstall -k {os.uname().release}"]
    assert not run(**given)["changed"]


@pytest.mark.parametrize(
    ("packages", "candidate", "warned"),
    [
        (("linux-image-cloud-amd64", "linux-image-6.12.48-cloud-amd64"), "6.12.57-1", True),
        (("linux-image-generic-hwe-24.04",), "6.17.0-8.8", True),
        (("linux-image-cloud-amd64", "linux-headers-cloud-amd64"), "6.12.57-1", False),
        # A pin holds the kernel too; others have no such package.
        (("linux-image-aws",), "(none)", False),
        (("linux-image-extra-virtual",), "", False),
        (
            ("linux-image-6.8.0-1066-aws", "linux-image-unsigned-x", "linux-image-amd64-dbg"),
            "1",
            False,
        ),
    ],
)
def test_the_next_kernel_has_headers_or_somebody_is_warned(
    host: Path,
    monkeypatch: pytest.MonkeyPatch,
    packages: tuple[str, ...],
    candidate: str,
    warned: bool,
) -> None:
    """dkms leaves out a kernel without headers without an error: its boot would have no GPUs."""
    modinfo(host, "595.91.07")
    with (host / "status").open("a") as status:
        status.writelines(f"installed\t{name}\tamd64\t1\t\n" for name in packages)
    said = f"linux-headers-x:\n  Installed: (none)\n  Candidate: {candidate}\n" if candidate else ""
    program = host / "bin" / "apt-cache"
    program.write_text(f"#!/bin/sh\nprintf '%s' '{said}'\n")
    program.chmod(0o755)
    found: list[str] = []
    monkeypatch.setattr(
        deb_packages.AnsibleModule, "warn", lambda _self, text, **_more: found.append(text)
    )
    modules = {"nvidia": "595.91.07"}
    assert not run(names=["munge"], modules=modules)["changed"]
    assert len(found) == warned
    if warned:
        headers = packages[0].replace("image", "headers")
        assert f"-> install {headers} there" in found[0] and "module nvidia" in found[0]
    run(names=["munge"])
    run(names=["munge"], modules=modules, fetch_only=True)
    assert len(found) == warned


def test_a_module_that_stays_away_is_an_error(host: Path) -> None:
    modinfo(host, "580.95.05")
    dkms(host, "", "Consult /var/lib/dkms/nvidia/595.91.07/build/make.log for more information.")
    result = run(modules={"nvidia": "595.91.07"})
    assert (
        result["failed"] and "read /var/lib/dkms/nvidia/595.91.07/build/make.log" in result["msg"]
    )
    result = run(modules={"nvidia": "595.91.07"}, fetch_only=True)
    assert not result.get("failed"), "it is for the next boot"


def test_a_build_that_fails_is_not_tried_four_times(host: Path) -> None:
    log = "Consult /var/lib/dkms/nvidia/595.91.07/build/make.log for more information."
    (host / "unbuilt").write_text(f"{log}\ndpkg: error processing package\n")
    result = run()
    assert result["failed"] and "dkms could not build nvidia 595.91.07" in result["msg"]
    assert asked(host) == ["install jq 101"]


@pytest.mark.parametrize("downgrade", [True, False])
def test_an_older_version_is_taken_where_it_is_asked_for(host: Path, downgrade: bool) -> None:
    """apt-get --yes refuses it by itself, also for a version that is named and pinned."""
    apt = host / "bin" / "apt-get"
    apt.write_text(apt.read_text().replace("#!/bin/sh\n", f'#!/bin/sh\necho "$*" >>{host}/words\n'))
    run(downgrade=downgrade)
    assert ("--allow-downgrades" in (host / "words").read_text()) == downgrade
