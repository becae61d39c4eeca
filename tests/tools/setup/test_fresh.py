"""tools/test_fresh.sh and .ci/run: in a bare system where one can be made, in place elsewhere.

When this fails, CI leaves mounts behind, or reports success after a failure.

Each runs on a small project. Nothing is downloaded: debootstrap, git and apt-get are scripts. The
system that this debootstrap makes has the machine's own /usr/bin and libraries.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from where import ROOT

pytestmark = pytest.mark.setup

TARGETS = ["bench", "test", "test-setup"]
CLOSING = "======= 3 passed, 1 failed in 0.1s ======="
MARK = "@if test -e /etc/bare; then echo $@ in bare as $$(id -un); else echo $@ in place; fi"
MAKEFILE = f"bench preload test-setup:\n\t{MARK}\ntest:\n\t{MARK}\n"
# As debootstrap is called: two options, the suite, the system's folder, the mirror.
DEBOOTSTRAP = r"""
system=$4
for name in bin lib lib64; do
    mkdir -p "$system/usr/$name"
    mount --bind "/usr/$name" "$system/usr/$name"
done
ln -s usr/bin usr/lib usr/lib64 usr/sbin "$system"
mkdir -p "$system/etc/apt/apt.conf.d" "$system/usr/sbin" "$system/root" "$system/tmp"
cp /etc/passwd /etc/group "$system/etc"
touch "$system/etc/bare"
cat >"$system/usr/sbin/apt-get" <<'END'
#!/bin/sh
echo "$@" >>/etc/asked
END
cat >"$system/usr/sbin/useradd" <<'END'
#!/bin/sh
mkdir -p "/home/$2"
echo "$2:x:7777:7777::/home/$2:/bin/sh" >>/etc/passwd
echo "$2:x:7777:" >>/etc/group
END
chmod 755 "$system"/usr/sbin/*
"""
SCRIPTS = {
    "debootstrap": DEBOOTSTRAP,
    "git": 'case $1 in clone) cp -r . "$5" ;; esac',
    "apt-get": "case $1 in indextargets) echo mirror ;; *) exit 1 ;; esac",
}
# What the scripts under test call; a PATH of these alone shows what happens without the others.
TOOLS = """bash cat chmod chroot cp cut date dirname env flock grep head id ln make mkdir mkfifo
mktemp mount python3 rm sed setpriv setsid sh sleep sort tail tee timeout touch tr true
unshare"""
NO_MIRROR = "echo E: no mirror; exit 1"


class Project:
    """A checkout with the two scripts and a Makefile, and the commands that they find."""

    def __init__(self, folder: Path) -> None:
        self.root, self.bin, self.tmp = (folder / name for name in ("project", "bin", "tmp"))
        for name in (".ci/run", "tools/test_fresh.sh"):
            (self.root / name).parent.mkdir(parents=True)
            shutil.copy(ROOT / name, self.root / name)
        self.makefile(MAKEFILE)
        self.bin.mkdir()
        self.tmp.mkdir()
        for name in TOOLS.split():
            (self.bin / name).symlink_to(shutil.which(name) or f"/nowhere/{name}")
        for name, text in SCRIPTS.items():
            self.script(name, text)

    def makefile(self, text: str) -> None:
        (self.root / "Makefile").write_text(text)

    def script(self, name: str, text: str) -> None:
        (self.bin / name).unlink(missing_ok=True)
        (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.bin / name).chmod(0o755)

    def start(self, *command: str, **env: str) -> subprocess.Popen[str]:
        """The command with standard input closed, as CI closes it."""
        return subprocess.Popen(
            ["bash", "-c", 'exec "$@" <&-', "bash", *command],
            cwd=self.root,
            env={"PATH": str(self.bin), "HOME": "/root", "TMPDIR": str(self.tmp), **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *command: str, **env: str) -> tuple[int, list[str]]:
        child = self.start(*command, **env)
        said, _ = child.communicate(timeout=60)
        return child.returncode, said.splitlines()

    def ci(self) -> tuple[int, list[str]]:
        return self.run("bash", ".ci/run", CI="true")

    def fresh(self, **env: str) -> tuple[int, list[str]]:
        return self.run("sh", "tools/test_fresh.sh", **env)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture
def bare(project):
    """The project, where this process may make a bare system."""
    skip_unless_allowed(project)
    yield project
    assert list(project.tmp.iterdir()) == []  # no system, no log
    assert str(project.tmp) not in Path("/proc/mounts").read_text()


def skip_unless_allowed(project: Project) -> None:
    """Skips where this process may not mount in a namespace of its own."""
    may = ("unshare", "--mount", "--pid", "--fork", "mount", "--bind", "/usr/bin", project.tmp)
    done = subprocess.run(may, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        pytest.skip(f"needs the right to mount: {done.stderr.strip()}")


def in_place(said: list[str]) -> list[str]:
    assert "ci: make bench, make test and make test-setup run in place" in said, said
    return [line for line in said if " in place" in line and not line.startswith("ci:")]


@pytest.mark.parametrize(
    ("command", "script", "reason"),
    [
        ("id", "echo 1000", "debootstrap and chroot need root"),
        ("unshare", "echo refused >&2; exit 1", "namespaces are refused: refused"),
        ("debootstrap", None, "debootstrap is not installed and apt-get cannot install it"),
        ("debootstrap", NO_MIRROR, "debootstrap failed: E: no mirror"),
        ("mount", "exit 32", "mount is refused"),
        ("git", "exit 128", "git finds no commit"),
    ],
)
def test_ci_runs_in_place_where_no_bare_system_can_be_made(project, command, script, reason):
    project.script("id", "echo 0")
    if command in ("mount", "git") or script == NO_MIRROR:  # after the namespaces are made
        skip_unless_allowed(project)
    project.script(command, script or "")
    if script is None:
        (project.bin / command).unlink()
    code, said = project.ci()
    assert code == 0, said
    assert in_place(said) == [f"{target} in place" for target in TARGETS]
    assert any("no bare system here: " + reason in line for line in said), said
    assert list(project.tmp.iterdir()) == []


@pytest.mark.parametrize(("recipe", "expected"), [("true", 0), ("exit 5", 2)])
def test_ci_passes_the_status_on_and_closes_with_pytests_line(project, recipe, expected):
    project.script("id", "echo 1000")
    text = f"@echo '{CLOSING}'; echo coverage; cat; echo $$SPARKLE_REQUIRE; {recipe}"
    project.makefile(f"bench test-setup:\ntest:\n\t{text}\n")
    code, said = project.ci()
    assert code == expected
    assert said[-1] == CLOSING
    assert {"coverage", "egl"} < set(said)


@pytest.mark.parametrize("target", TARGETS)
def test_ci_fails_when_any_command_does(project, target):
    project.script("id", "echo 1000")
    project.makefile(f"{' '.join(TARGETS)}:\n\t@test $@ != {target}\n")
    code, _ = project.ci()
    assert code == 2


def test_ci_runs_all_in_a_bare_system(bare):
    bare.makefile(MAKEFILE + f"\t@echo $$SPARKLE_REQUIRE; echo '{CLOSING}'\n")
    code, said = bare.ci()
    assert code == 0, said
    bare_ones = [line for line in said if " in bare" in line]
    assert bare_ones == [f"{target} in bare as root" for target in TARGETS], said
    assert "egl" in said
    assert "test-fresh: bench test test-setup: all well" in said[-2]
    assert said[-1] == CLOSING


def test_a_failure_in_the_bare_system_is_not_tried_again_in_place(bare):
    bare.makefile("bench:\n\t@exit 5\n")
    code, said = bare.ci()
    assert code == 2
    assert said[-1] == "test-fresh: make bench FAILED"


def test_a_bare_system_may_unshare_and_share_memory(bare):
    bare.makefile("bench:\n\t@unshare --mount true && test -k /dev/shm && echo may\n")
    code, said = bare.fresh(TARGETS="bench")
    assert (code, "may" in said) == (0, True), said


@pytest.mark.parametrize("line", ["first tool", ""])
def test_as_a_user_the_packages_of_one_line_are_installed(bare, line):
    build = f"@test -e /etc/asked.user || echo 'install with: sudo apt-get install {line}'"
    bare.makefile(f"build:\n\t{build if line else '@true'}\n{MAKEFILE}\t@grep first /etc/asked\n")
    code, said = bare.fresh(AS="user")
    assert "bench in bare as user" in said, said
    if line:
        assert code == 0, said
        assert "test-fresh: as root: apt-get install first tool" in said
        assert "-qq -y --no-install-recommends install first tool" in said
    else:
        assert code == 2  # nothing was asked for


def test_as_a_user_a_second_line_is_a_failure(bare):
    line = "@echo 'setup: missing here; install with: sudo apt-get install x'"
    bare.makefile(f"build preload:\n\t{line}\nbench test test-setup:\n")
    code, said = bare.fresh(AS="user")
    assert (code, said[-1]) == (1, "test-fresh: the first line was not complete")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_is_killed(bare, number):
    sleep = f"sleep {os.getpid()}.25"  # as a mark among the processes of this machine
    bare.makefile(f"bench:\n\t@echo started; setsid {sleep}\n")
    child = bare.start("sh", "tools/test_fresh.sh")
    assert any(line == "started\n" for line in child.stdout)
    child.send_signal(number)
    child.communicate(timeout=30)
    assert child.returncode != 0
    until(lambda: not any(bare.tmp.iterdir()) and sleep.encode() not in commands())


def test_ci_that_is_killed_leaves_nothing(bare):
    bare.makefile("bench:\n\t@echo started; sleep 500\n")
    child = bare.start("bash", ".ci/run")
    assert any(line == "started\n" for line in child.stdout)
    child.terminate()
    child.communicate(timeout=30)
    assert child.returncode not in (0, 75)
    until(lambda: not any(bare.tmp.iterdir()))


def commands() -> bytes:
    """The command lines of all processes, words parted by spaces."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" "))
        except OSError:
            continue
    return b"\n".join(found)


def until(condition, seconds=30.0):
    """Waits for what another process does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_kept_system_is_made_once(bare, tmp_path):
    """The second run fails: what debootstrap's stand-in had mounted went with the first."""
    kept = tmp_path / "kept"
    code, said = bare.fresh(FRESH=str(kept), TARGETS="bench")
    assert (code, said[-1]) == (0, f"test-fresh: system kept in {kept}"), said
    _, again = bare.fresh(FRESH=str(kept), TARGETS="bench")
    made = [any(line.startswith("test-fresh: making") for line in x) for x in (said, again)]
    assert made == [True, False]
