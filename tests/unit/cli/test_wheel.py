"""The built wheel, installed outside any checkout: each command works with what is inside it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from uv import find_uv_bin

from b200kit import __version__
from tests.unit import states
from tests.unit.node.client.server_thread import MODEL, running
from tests.unit.report import records
from tests.unit.report.pages import write

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[3]
LOCK = ROOT / "requirements" / "controller.txt"
Run = Callable[..., subprocess.CompletedProcess[str]]
# Nobody, who may read what only root may: a checkout can lie anywhere.
_NOBODY = [
    "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
]  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this checkout without network."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--no-build-isolation", "--no-index", "--python", sys.executable)
    _uv("build", "--wheel", *options, "--out-dir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment of the wheel and its lock, as docs/install.md makes one."""
    folder = tmp_path_factory.mktemp("environment")
    python = ("--python", str(folder))
    _uv("venv", "--python", sys.executable, "--clear", str(folder))
    _uv("pip", "install", *python, "--require-hashes", "-r", str(LOCK))
    _uv("pip", "install", *python, "--no-deps", "--no-index", str(wheel))
    return folder


@pytest.fixture
def b200(environment: Path, tmp_path: Path) -> Run:
    """Runs `b200` in a directory with nothing but a deploy of the user's own."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "deploy.py").write_text("raise SystemExit('the deploy of the user was imported')\n")

    def run(
        *arguments: str, module: bool = False, nobody: bool = False
    ) -> subprocess.CompletedProcess[str]:
        program = ["python", "-m", "b200kit.cli"] if module else ["b200"]
        program[0] = str(environment / "bin" / program[0])
        program = [*(_NOBODY if nobody and os.getuid() == 0 else ()), *program]
        variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        return subprocess.run(
            [*program, *arguments], cwd=work, env=variables, capture_output=True, text=True
        )

    return run


def _uv(*arguments: str) -> None:
    done = subprocess.run([find_uv_bin(), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def recorded(folder: Path) -> str:
    """A copy of a recorded state outside the checkout."""
    return str(shutil.copy(states.STATES / "healthy-hgx-b200.json", folder / "n01.json"))


def test_every_module_template_and_data_file_is_inside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    sources = {
        "b200kit": ROOT / "deploy" / "b200kit",
        "b200kit/templates": ROOT / "templates",
        "b200kit/states": states.STATES,
    }
    expected = {
        f"{name}/{path.relative_to(folder).as_posix()}"
        for name, folder in sources.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    locks = {path.name for path in (ROOT / "requirements").glob("engine-vllm-cuda-*.txt")} | {
        "node.txt"
    }
    expected |= {f"b200kit/requirements/{name}" for name in locks}
    expected |= {f"b200kit/entries/{path.name}" for path in (ROOT / "deploy").glob("*.py")}
    assert expected <= packed
    assert len({name for name in packed if "/requirements/" in name}) == len(locks) > 0
    assert {name for name in packed if not name.startswith(("b200kit/", "b200kit-"))} == set()
    scripts = {f"b200-{path.stem}" for path in (ROOT / "contrib").iterdir()}
    assert {name.rpartition("/")[2] for name in packed if ".data/scripts/" in name} == scripts


def test_container_is_built_of_all_that_the_wheel_takes() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    taken = wheel["targets"]["wheel"]
    lines = (ROOT / "Containerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    for path in (*taken["only-include"], *taken["force-include"], *taken["shared-scripts"]):
        assert any(f"{path}/".startswith(f"{each}/") for each in copied), path


@pytest.mark.parametrize("name", ["slurm", "kubernetes", "ipmi", "maas"])
def test_commands_of_contrib_are_installed_beside_b200(environment: Path, name: str) -> None:
    run = subprocess.run(
        [environment / "bin" / f"b200-{name}"], env={}, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert f"b200-{name}" in run.stderr


def test_the_lock_has_all_that_the_wheel_asks_for(environment: Path) -> None:
    _uv("pip", "check", "--python", str(environment))


def test_no_message_or_page_installs_a_name_that_is_not_ours() -> None:
    # The project is not published: whoever registered the name would own the controller.
    command = r"(pip|pipx|uv)( [a-z]+)* (install|add|run) [^\n]*"
    asked = re.compile(command + r"(?<![\w./-])b200kit(?![\w./-])")
    for folder, kind in ((ROOT / "deploy", "*.py"), (ROOT / "docs", "*.md"), (ROOT, "*.md")):
        for path in folder.rglob(kind) if folder != ROOT else folder.glob(kind):
            assert not asked.search(path.read_text()), path


def test_types_are_those_of_the_package(environment: Path, tmp_path: Path) -> None:
    python = str(environment / "bin" / "python")
    mypy = [sys.executable, "-m", "mypy", "--config-file=", "--python-executable", python]
    code = "import b200kit\nb200kit.__version__ + 1\n"
    run = subprocess.run([*mypy, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    # Without the marker it would know of no types: [import-untyped].
    assert re.findall(r"\[([a-z-]+)\]", run.stdout) == ["operator"]


@pytest.mark.parametrize("module", [False, True], ids=["script", "module"])
def test_version(b200: Run, module: bool) -> None:
    assert b200("--version", module=module).stdout == f"b200 {__version__}\n"


def test_judge(b200: Run, tmp_path: Path) -> None:
    run = b200("judge", recorded(tmp_path), "--topology")
    assert (run.returncode, run.stderr) == (0, "")
    assert "144/144 links" in run.stdout


@pytest.mark.parametrize(("name", "code"), [("healthy", 0), ("gpu2-no-nvlink", 1)])
def test_example_is_judged_for_a_user_who_is_not_root(b200: Run, name: str, code: int) -> None:
    run = b200("judge", "--example", name, nobody=True)
    assert (run.returncode, run.stderr) == (code, "")
    assert f"tests/states/{name}" in run.stdout


def test_this_machine_is_looked_at(b200: Run) -> None:
    run = b200("check", "--local")
    # Where this is no root and sudo asks, it is not looked at.
    assert (run.returncode, run.stderr) == (2 if os.getuid() == 0 else run.returncode, "")
    assert run.stdout.endswith(f"exit {run.returncode}\n")


def test_models_and_the_help_of_a_deploy(b200: Run) -> None:
    run = b200("models", "llama-3.3")
    assert (run.returncode, run.stderr) == (0, "")
    assert "llama-3.3-70b-fp8" in run.stdout
    run = b200("deploy", "--help")
    assert (run.returncode, run.stderr) == (0, "")


def test_plan(b200: Run, tmp_path: Path) -> None:
    run = b200("plan", "llama-3.3-70b-fp8", "--on", recorded(tmp_path), "--json")
    assert run.returncode == 0, run.stderr
    assert len(json.loads(run.stdout)["replicas"]) == 4


def test_explain_has_the_faults_of_checks_and_the_runbook(b200: Run) -> None:
    for name, label in (("nvlink.links", "when it fails"), ("B200FabricFault", "what to do")):
        run = b200("explain", name)
        assert (run.returncode, label in run.stdout) == (0, True), run.stderr


def test_report(b200: Run, tmp_path: Path) -> None:
    (tmp_path / "work" / "inventories").mkdir()
    page = write(records.fleet(), tmp_path / "work" / "reports")
    run = b200("report")
    assert (run.returncode, run.stderr) == (0, "")
    assert f"reports/{page.parent.name}/report.html" in run.stdout


def test_deploy_runs_pyinfra_over_an_entry_file_of_the_package(b200: Run, tmp_path: Path) -> None:
    inventory = tmp_path / "work" / "inventories" / "prod.py"
    inventory.parent.mkdir()
    inventory.write_text("nodes = []\n")
    for name in ("ready", "deploy", "repair", "tune"):
        run = b200(name)
        assert (run.returncode, run.stdout, run.stderr.count("\n")) == (1, "", 1)
        assert str(inventory) in run.stderr


def test_smoke(b200: Run, tmp_path: Path) -> None:
    short = ("--requests", "4", "--rate", "50", "--input-tokens", "40", "--output-tokens", "6")
    result = tmp_path / "smoke.json"
    with running() as url:
        run = b200("smoke", url, "--model", MODEL, *short, "--output", str(result))
    # A busy machine may make this client's figures invalid; that it measured is what counts here.
    assert run.returncode in (0, 1, 2), run.stderr
    main = json.loads(result.read_text())["smoke"]["main"]
    assert (main["completed"], main["failed"]) == (4, 0)


def test_lab_says_what_it_needs(b200: Run) -> None:
    run = b200("lab", "up")
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (64, "", 1)
    assert "checkout" in run.stderr


def test_a_deploy_finds_its_templates_in_the_wheel(environment: Path, tmp_path: Path) -> None:
    code = "from b200kit.run import places, render; print(places.TEMPLATES)"
    python = str(environment / "bin" / "python")
    run = subprocess.run(
        [python, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    folder = Path(run.stdout.strip())
    assert folder.is_relative_to(environment)
    assert {path.name for path in folder.iterdir()} == {p.name for p in ROOT.glob("templates/*")}
