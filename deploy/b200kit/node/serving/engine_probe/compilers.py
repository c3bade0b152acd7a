"""Steps: the compilers that an engine calls at run time, and what they compile against."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, machinery, metadata
from pathlib import Path

from b200kit.node.serving.engine_probe.asked import ProbeFault, ProbeNotApplicable, ProbeRequest

_SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin")
# What Triton takes (triton/runtime/build.py), and torch.compile (torch/_inductor/config.py).
_C, _CXX = ("gcc", "clang"), ("g++", "clang++")
_SOURCE = """
#include <Python.h>
#ifdef __cplusplus
#include <omp.h>
#endif
static struct PyModuleDef module = {{PyModuleDef_HEAD_INIT, "{name}", NULL, -1, NULL}};
PyMODINIT_FUNC PyInit_{name}(void) {{ return PyModule_Create(&module); }}
"""
_WITHIN_S = 60.0


def compiler(asked: ProbeRequest) -> str:
    """A C and a C++ compiler, ninja and nvcc are found where the engine looks for them."""
    _engine_only(asked)
    found = [_program(asked, "CC", _C, "g++"), _program(asked, "CXX", _CXX, "g++")]
    if has("ninja"):
        found.append(_program(asked, "", ("ninja",), "ninja, in the engine's lock"))
    if home := asked.environment.get("CUDA_HOME"):
        found.append(f"{home}/bin/nvcc")
        if not os.access(found[-1], os.X_OK):
            raise ProbeFault(f"CUDA_HOME={home} has no bin/nvcc", asked.unit("CUDA_HOME is wrong"))
    return ", ".join(found)


def _engine_only(asked: ProbeRequest) -> None:
    if asked.kind == "stand-in":
        raise ProbeNotApplicable("a stand-in for an engine compiles nothing")


def _program(asked: ProbeRequest, variable: str, names: tuple[str, ...], package: str) -> str:
    """Where the first of some programs is. A variable that names one stands above them."""
    path = asked.environment.get("PATH", "")
    wanted = (asked.environment.get(variable) or "").split()[:1] or names
    found = next((place for name in wanted if (place := shutil.which(name, path=path))), None)
    if found:
        return found
    folders = ":".join((str(Path(sys.executable).parent), *_SYSTEM))
    elsewhere = next((at for name in names if (at := shutil.which(name, path=folders))), None)
    if asked.environment.get(variable):
        raise ProbeFault(
            f"{variable} names {wanted[0]}", asked.unit(f"{variable} names no program")
        )
    remedy = (
        asked.unit(f"PATH lacks {Path(elsewhere).parent}, where {Path(elsewhere).name} is")
        if elsewhere
        else f"install {package}: b200 deploy does"
    )
    raise ProbeFault(f"no {' or '.join(wanted)} in PATH={path}", remedy)


def headers(asked: ProbeRequest) -> str:
    """An extension of this Python compiles, in C as Triton's and in C++ as torch.compile's."""
    _engine_only(asked)
    include = sysconfig.get_path("include")
    with _folder(asked) as folder:
        for language, variable, names, flags in (
            ("c", "CC", _C, ()),
            ("cpp", "CXX", _CXX, ("-fopenmp",)),
        ):
            name = f"b200kit_probe_{language}"
            source, made = folder / f"{name}.{language}", folder / f"{name}.so"
            source.write_text(_SOURCE.format(name=name))
            found = _program(asked, variable, names, "g++")
            _compile([found, "-O1", "-shared", "-fPIC", *flags, f"-I{include}"], source, made)
            machinery.ExtensionFileLoader(name, str(made)).create_module(
                machinery.ModuleSpec(name, None, origin=str(made))
            )
    return f"an extension for {include} compiles and loads"


def _compile(command: list[str], source: Path, made: Path) -> None:
    done = subprocess.run(
        [*command, str(source), "-o", str(made)],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_WITHIN_S,
        check=False,
    )
    if done.returncode == 0:
        return
    lines = [line for line in done.stderr.splitlines() if "error" in line.lower()]
    seen = (lines or done.stderr.splitlines() or [f"it exited {done.returncode}"])[0]
    version = ".".join(map(str, sys.version_info[:2]))
    missing = "Python.h" in seen
    remedy = f"install {f'python3-dev of Python {version}' if missing else 'g++'} as a whole"
    raise ProbeFault(f"{Path(command[0]).name}: {seen.strip()}", f"{remedy}: b200 deploy does")


@contextmanager
def _folder(asked: ProbeRequest) -> Iterator[Path]:
    """A folder where what is compiled can be run: /run may be mounted noexec."""
    with tempfile.TemporaryDirectory(dir=asked.environment.get("HOME"), prefix=".probe-") as path:
        yield Path(path)


def triton(asked: ProbeRequest) -> str:
    """Triton compiles the stub of its driver and loads it, from nothing that it kept."""
    if not asked.on_gpus:
        raise ProbeNotApplicable("Triton is for GPUs")
    if not has("triton"):
        raise ProbeNotApplicable("the engine has no Triton")
    with _folder(asked) as folder:
        os.environ["TRITON_CACHE_DIR"] = str(folder)
        try:
            import_module("triton.backends.nvidia.driver").CudaUtils()
        except Exception as error:
            seen = f"Triton's driver stub: {type(error).__name__}: {error}"
            remedy = "install g++, python3-dev and the driver's libcuda.so.1: b200 deploy does"
            raise ProbeFault(seen, remedy) from None
    return f"Triton {metadata.version('triton')} compiles its driver stub"


def has(distribution: str) -> bool:
    """Whether the engine's Python has a package installed."""
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def kernels(asked: ProbeRequest) -> str:
    """The normalisation of one small tensor: prebuilt, or compiled by nvcc and ninja."""
    if not asked.on_gpus:
        raise ProbeNotApplicable("FlashInfer is for GPUs")
    if not has("flashinfer-python"):
        raise ProbeNotApplicable("the engine has no FlashInfer")
    prebuilt = has("flashinfer-jit-cache")
    if not prebuilt and not asked.environment.get("CUDA_HOME"):
        raise ProbeNotApplicable("no kernel is prebuilt and there is no nvcc: its sampler is off")
    try:
        torch, norm = import_module("torch"), import_module("flashinfer.norm")
        kind = {"device": "cuda", "dtype": torch.bfloat16}
        found = norm.rmsnorm(torch.ones(1, 128, **kind), torch.ones(128, **kind))
        torch.cuda.synchronize()
        float(found.sum())
    except Exception as error:
        versions = "flashinfer-python and flashinfer-jit-cache must be of one version"
        tools = "PATH must have ninja, and CUDA_HOME nvcc"
        seen = f"FlashInfer: {type(error).__name__}: {error}"
        raise ProbeFault(seen, versions if prebuilt else asked.unit(tools)) from None
    return f"a kernel of FlashInfer {metadata.version('flashinfer-python')} runs"
