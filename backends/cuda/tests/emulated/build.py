"""An environment in which CuPy runs without a GPU: `python emulated/build.py`, by the Python of a fresh environment.

It has CuPy (the wheel, unchanged but for two modules), NVRTC, and what else `NEEDED` names: `uv sync --group emulated`
brings all of it. All that is made lies in the environment, and is made anew where one of the sources here has changed:

- ``libemulated_cuda.so`` from the ``.cpp`` here, with a function that fails for each that CuPy asks for
  and nothing here has; and CUDA's libraries, by the names that CuPy loads, as links to it;
- ``cupy_backends.cuda.api.runtime`` from CuPy's source distribution: in the wheel NVIDIA's runtime is part of it;
- ``cupy.cuda.thrust``, in Python;
- ``emulated_cuda``, the package that every Python of the environment loads: `boot.py`, and `translate.py`.

It is refused where a driver is: the environment would not find the GPU any more. Ends with 77 where something that it
needs is missing, the network for CuPy's source distribution among it; with 1 where it does not work.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
SITE: Final = Path(sysconfig.get_path("platlib"))
HOME: Final = SITE / "emulated_cuda"
LIBRARIES: Final = HOME / "lib"
HEADERS: Final = SITE / "nvidia" / "cu13" / "include"
SUFFIX: Final = sysconfig.get_config_var("EXT_SUFFIX")
HOOK: Final = SITE / "emulated_cuda.pth"
RUNTIME: Final = Path("cupy_backends", "cuda", "api", "runtime")
THRUST: Final = SITE / "cupy" / "cuda" / f"thrust{SUFFIX}"
MODULES: Final = ("boot.py", "translate.py", "expressions.py", "ptx.py", "prelude.h", "races.h")
COMPILED: Final = (
    *("device.cpp", "collectives.cpp", "linear_algebra.cpp", "convolution.cpp", "fourier.cpp", "sorting.cpp"),
)
SOURCES: Final = (*COMPILED, "device.h", "halves.h", "thrust.py", "build.py")
NEEDED: Final = (
    *("cupy-cuda13x", "nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "cython", "setuptools", "pip"),
    *("numpy", "scipy", "ml-dtypes", "micrograd-core", "micrograd-cuda"),
)
TOOLS: Final = ("gcc", "g++", "nm")
MISSING: Final = 77  # what test runners take for "left out"

# Libraries that others depend on, of which CuPy itself calls nothing.
CUDNN: Final = "libcudnn.so.9"
DEPENDENCIES: Final = {"libcublasLt.so.13", "libnvJitLink.so.13", "libnccl.so.2", CUDNN}
# The kinds of functions that CuPy calls, and what each returns when there is none.
UNKNOWN: Final = re.compile(
    r"\bU (cuda\w+|cublas\w+|cusolver\w+|cusparse\w+|curand\w+|cufft\w+|cuProfiler\w+|nccl\w+)(?:@(\S+))?"
)
NOT_SUPPORTED: Final = {"cuda": 801, "cublas": 15, "cusolver": 9, "cusparse": 10, "curand": 104, "cufft": 16, "nccl": 5}
PROFILER: Final = """#include <cuda_runtime_api.h>
extern "C" { cudaError_t cudaProfilerStart(void); cudaError_t cudaProfilerStop(void); }
"""
CYTHONIZE: Final = """
import sys, Cython
from Cython.Build import cythonize
from setuptools import Extension
name = "cupy_backends.cuda.api.runtime"
constants = {"CUPY_CUDA_VERSION": 13000, "CUPY_HIP_VERSION": 0, "CUPY_USE_CUDA_PYTHON": False,
             "CUPY_CUFFT_STATIC": False, "CUPY_CYTHON_VERSION": Cython.__version__}
directives = {"c_api_binop_methods": True, "binding": False, "freethreading_compatible": True,
              "warn.deprecated.IF": False}
cythonize([Extension(name, [name.replace(".", "/") + ".pyx"], language="c++")], language_level=3, quiet=True,
          compile_time_env=constants, compiler_directives=directives)
"""
PROOF: Final = """
import numpy, cupy
from micrograd_core import Device, Tensor
x = cupy.arange(6, dtype="float32").reshape(2, 3)
assert numpy.allclose((x @ x.T).get(), x.get() @ x.get().T)
w = Tensor([[1.0, 2.0], [3.0, 4.0]], device="cuda")
w.exp().sum().backward()
assert numpy.allclose(w.grad.numpy(), numpy.exp([[1, 2], [3, 4]]))
print(f"emulated: {cupy.__name__} {cupy.__version__} computes on {Device('cuda')} without a GPU")
"""


class Missing(Exception):
    """What the environment cannot be built without, and how to get it."""


class Failed(Exception):
    """A step of the build."""


def has_driver() -> bool:
    """Whether NVIDIA's loads, in a Python that loads nothing of ours: -S."""
    command = [sys.executable, "-S", "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"]
    return not subprocess.run(command, capture_output=True, check=False).returncode


def check() -> dict[str, str]:
    """The versions of what is there."""
    if sys.prefix == sys.base_prefix:
        raise Missing(f"{sys.prefix} is no environment of its own: python -m venv FOLDER, and build with its Python")
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Missing(f"the emulation runs on Linux on x86_64; this is {sys.platform} on {platform.machine()}")
    if has_driver():
        raise Missing("this machine has NVIDIA's driver: use the GPU, and an environment that knows it")
    for tool in TOOLS:
        if not shutil.which(tool):
            raise Missing(f"there is no {tool}: install the compiler (gcc, g++, binutils)")
    found = {}
    for name in NEEDED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            raise Missing(
                f"{name} is not installed in {sys.prefix}: uv sync --group emulated brings all of it"
            ) from None
    if find_spec("cupy") is None or not (HEADERS / "cuda.h").exists():
        raise Missing(f"CuPy, or {HEADERS}/cuda.h, is missing: install nvidia-cuda-runtime and cupy-cuda13x again")
    return found


def run(*command: str | Path, where: Path | None = None, text: str | None = None, **environment: str) -> str:
    """What a command prints; its errors are ours."""
    done = subprocess.run(
        command, cwd=where, input=text, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))[:300]} failed:\n{done.stdout[-1500:]}{done.stderr[-3000:]}")
    return done.stdout


def wanted(runtime: Path) -> dict[str, str]:
    """The functions that CuPy's modules, and its runtime made anew, want of CUDA's libraries, each with its library."""
    modules = [path for top in ("cupy", "cupyx", "cupy_backends") for path in (SITE / top).rglob(f"*{SUFFIX}")]
    listed = run("nm", "-D", "--undefined-only", *modules) + run("nm", "--undefined-only", runtime)
    return {name: library or "" for name, library in UNKNOWN.findall(listed) if "nvrtc" not in library}


def build_libraries(work: Path, functions: dict[str, str]) -> None:
    """One library that has everything, and one by each name that CuPy's modules load, which only refers to it."""
    blas = sorted((SITE / "scipy.libs").glob("libscipy_openblas*.so"))
    if not blas:
        raise Missing(f"SciPy's wheel brings LAPACK as scipy.libs/libscipy_openblas*.so; {SITE} has none")
    flags = ["-std=c++20", "-O1", "-fPIC", f"-I{HEADERS}", f'-DOPENBLAS="{blas[0]}"']
    objects = []
    for name in COMPILED:
        objects.append(work / f"{name}.o")
        run("g++", *flags, "-c", HERE / name, "-o", objects[-1])
    defined = set(re.findall(r" T (\w+)", run("nm", "--defined-only", *objects)))
    lines = ["#include <stdio.h>"]
    for name in sorted(set(functions) - defined):
        status = next(code for kind, code in NOT_SUPPORTED.items() if name.startswith(kind))
        lines.append(f'int {name}(void) {{ fprintf(stderr, "emulated: there is no {name}\\n"); return {status}; }}')
    objects.append(work / "missing.o")
    run("gcc", "-fPIC", "-w", "-c", "-x", "c", "-", "-o", objects[-1], text="\n".join(lines))
    shutil.rmtree(LIBRARIES, ignore_errors=True)
    LIBRARIES.mkdir(parents=True)
    own = LIBRARIES / "libemulated_cuda.so"
    run("g++", "-shared", f"-Wl,-soname,{own.name}", *objects, "-o", own, "-ldl")
    for name in sorted({*functions.values(), *DEPENDENCIES} - {""}):
        versions = work / f"{name}.map"
        versions.write_text(f"{name} {{ }};\n", encoding="utf-8")
        place = ["-Wl,-rpath,$ORIGIN", f"-L{LIBRARIES}", "-Wl,--no-as-needed", "-lemulated_cuda"]
        named = [f"-Wl,-soname,{name}", f"-Wl,--version-script,{versions}"]
        run("gcc", "-shared", "-x", "c", "/dev/null", *named, *place, "-o", LIBRARIES / name)
        folder = SITE / "nvidia" / "cudnn" if name == CUDNN else HEADERS.parent
        link = folder / "lib" / name  # where it is looked for
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(LIBRARIES / name)


def compile_runtime(work: Path, cupy: str) -> Path:
    """CuPy's own module over the runtime, from the source distribution of the same version."""
    download = ["download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary", "cupy", f"cupy=={cupy}"]
    try:
        run(sys.executable, "-m", "pip", *download, "--dest", work, CUPY_INSTALL_USE_STUB="1")
    except Failed as failed:
        raise Missing(f"the source distribution of CuPy {cupy} is not to be had: {failed}") from None
    with tarfile.open(next(work.glob("cupy-*.tar.gz"))) as archive:
        archive.extractall(work, filter="data")
    source, made = work / f"cupy-{cupy}", work / "runtime.o"
    run(sys.executable, "-c", CYTHONIZE, where=source)
    (work / "cuda_profiler_api.h").write_text(PROFILER, encoding="utf-8")
    import numpy as np  # check() has found it

    headers = [sysconfig.get_path("include"), np.get_include(), str(work), str(HEADERS)]
    flags = ["-O1", "-fPIC", "-w", "-DNPY_TARGET_VERSION=NPY_2_0_API_VERSION", "-DCUPY_CACHE_KEY=emulated"]
    run("g++", *flags, *(f"-I{each}" for each in headers), "-c", (source / RUNTIME).with_suffix(".cpp"), "-o", made)
    return made


def link_runtime(runtime: Path) -> None:
    """In place of the wheel's module, as a new file: the old one may be shared with uv's cache."""
    made = SITE / "cupy_backends" / f"emulated{SUFFIX}.new"
    place = [f"-L{LIBRARIES}", "-lemulated_cuda", f"-Wl,-rpath,{LIBRARIES}"]
    run("g++", "-shared", runtime, "-o", made, *place)
    made.replace(SITE / f"{RUNTIME}{SUFFIX}")


def build_package() -> None:
    """The package that is loaded first, and the module that sorts."""
    for name in MODULES:
        shutil.copyfile(HERE / name, HOME / name)
    THRUST.unlink(missing_ok=True)  # it would be found first
    shutil.copyfile(HERE / "thrust.py", THRUST.with_name("thrust.py"))
    HOOK.write_text("import emulated_cuda.boot\n", encoding="utf-8")


def main() -> int:
    try:
        versions = check()
        sources = b"".join((HERE / name).read_bytes() for name in (*MODULES, *SOURCES))
        state = hashlib.sha256(sources + repr(sorted(versions.items())).encode()).hexdigest()
        stamp = HOME / "built"
        whole = stamp.exists() and not THRUST.exists()  # which an installation over this one brings back
        if not whole or stamp.read_text(encoding="utf-8") != state:
            with tempfile.TemporaryDirectory() as work:
                stamp.unlink(missing_ok=True)
                HOOK.unlink(missing_ok=True)
                runtime = compile_runtime(Path(work), versions["cupy-cuda13x"])
                build_libraries(Path(work), wanted(runtime))
                link_runtime(runtime)
            build_package()
            stamp.write_text(state, encoding="utf-8")
        print(run(sys.executable, "-c", PROOF), end="")
    except (Missing, Failed) as error:
        print(f"emulated: {error}", file=sys.stderr)
        return MISSING if isinstance(error, Missing) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
