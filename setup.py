"""Build of the two kinds of extension: tracekit._core (pybind11, all of csrc/) and the Cython
modules; the gem5 plug-in's sources go along as data.

Sources are found by folder, so that a new file needs no edit here.  A file that is compiled for a
wider instruction set says so in its name (``*_avx2.cpp``, ``*_avx512.cpp``); it is chosen at run
time (csrc/core/cpu.hpp), so what is built never depends on the machine that builds it.
"""

import os
import platform
import runpy
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy
from Cython.Build import cythonize
from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.modified import newer_group

X86 = platform.machine().lower() in ("x86_64", "amd64")
WIDER = {
    "_avx2": ["-mavx2", "-mbmi", "-mbmi2", "-mlzcnt", "-mpopcnt", "-mfma"],
    "_avx512": [
        *("-mavx2", "-mbmi", "-mbmi2", "-mlzcnt", "-mpopcnt", "-mfma"),
        *(
            "-mavx512f",
            "-mavx512bw",
            "-mavx512dq",
            "-mavx512vl",
            "-mavx512cd",
            "-mprefer-vector-width=512",
        ),
    ],
}
#: No fused multiply-adds in rules with floats: every machine gives the same cycles and features.
FLAGS = [
    *("-O3", "-std=c++20", "-fvisibility=hidden", "-Wall", "-Wextra"),
    *("-fno-math-errno", "-g0", "-ffp-contract=off"),
]
#: Bindings convert arguments: -O1 saves a quarter of their compile time.  These loop over rows.
HOT_BINDINGS = {"register_features", "register_qemu", "register_sim", "rows"}
#: Each group of bindings is one translation unit: pybind11 is then parsed and expanded twice
#: instead of twenty times, which is half of the compile time of all C++ here.
BINDING_GROUPS = Path("build/bind")
#: Folders of csrc/ that are not compiled into the extension file by file.
APART = {"bench", "bind", "fuzz", "test"}
#: The gem5 plug-in, and what it includes of csrc/ (tests/test_packaging.py checks that).
PLUGIN = ("gem5_patches", "csrc/core", "csrc/formats/common", "csrc/formats/tkt")
HEADERS = sorted(str(p) for s in ("hpp", "def", "inc") for p in Path("csrc").rglob(f"*.{s}"))

PROBE = "#include <Python.h>\n#include <bit>\n#include <concepts>\n#include <span>\nint main() {}\n"
NO_COMPILER = (
    "tracekit is built with a C++20 compiler (g++ 11, clang 14 or later) and Python's headers. "
    "Debian and Ubuntu: apt-get install g++ python3-dev; Fedora: dnf install gcc-c++ "
    "python3-devel; macOS: xcode-select --install.  Here: {}"
)


def check_compiler(command: list[str]) -> None:
    """Ends the build in one line where C++20 with Python's headers does not compile."""
    command = [*command, "-std=c++20", f"-I{sysconfig.get_path('include')}", "-fsyntax-only"]
    try:
        done = subprocess.run(
            [*command, "-x", "c++", "-"], input=PROBE, capture_output=True, text=True, check=False
        )
    except OSError as e:
        raise SystemExit(NO_COMPILER.format(f"{command[0]}: {e.strerror}")) from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line] or ["it fails"]
        raise SystemExit(NO_COMPILER.format(f"{command[0]}: {errors[0].strip()}"))


C_FLAGS = [
    *("-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"),
    *("-shared", "-pthread"),
]
#: Plain shared libraries of C, each beside the Python that loads it: sources, library, what is
#: missing without it.
LIBRARIES = (
    ("csrc/record/qemu", "record/qemu/libtracekit_qemu.so", "record --engine qemu"),
    ("csrc/hardware/measure", "hardware/measure/libtracekit_measure.so", "calibrate"),
)
#: The kernels of calibrate's instruction forms: what makes an include of a list of forms.
FORM_KERNELS = "tracekit/hardware/measure/form_kernels.py"
FORMS = f"tracekit/hardware/measure/forms_{'x86' if X86 else 'arm'}.txt"
INCLUDE = Path("build/measure/forms.inc")


def write_form_kernels() -> None:
    """csrc/hardware/measure/forms.c includes it."""
    make = runpy.run_path(FORM_KERNELS)["include_text"]
    INCLUDE.parent.mkdir(parents=True, exist_ok=True)
    INCLUDE.write_text(make(Path(FORMS).read_text("utf-8").splitlines(), "x86" if X86 else "arm"))


def write_binding_groups() -> list[str]:
    """The two files that include csrc/bind's sources, written anew where they changed."""
    groups: dict[str, list[str]] = {"cold_bindings": [], "hot_bindings": []}
    for path in sorted(Path("csrc/bind").glob("*.cpp")):
        group = "hot_bindings" if path.stem in HOT_BINDINGS else "cold_bindings"
        groups[group].append(f'#include "bind/{path.name}"\n')
    BINDING_GROUPS.mkdir(parents=True, exist_ok=True)
    written = []
    for name, lines in groups.items():
        path = BINDING_GROUPS / f"{name}.cpp"
        if not path.exists() or path.read_text() != "".join(lines):
            path.write_text("".join(lines))
        written.append(str(path))
    return written


class BuildExt(build_ext):
    """build_ext that adds a file's own instruction-set flags."""

    def build_extensions(self) -> None:
        compiler = self.compiler
        commands = ("compiler_so_cxx", "compiler_so")  # setuptools since 75, and before
        command = next((c for n in commands if (c := getattr(compiler, n, None))), None)
        if command is not None:
            check_compiler(list(command))
        compile_one = compiler._compile

        def _compile(obj, src, ext, cc_args, extra_postargs, pp_opts):
            extra = list(extra_postargs)
            if Path(src) == BINDING_GROUPS / "cold_bindings.cpp":
                extra.append("-O1")  # the last one counts
            for suffix, flags in WIDER.items():
                if X86 and Path(src).stem.endswith(suffix):
                    extra += flags
            return compile_one(obj, src, ext, cc_args, extra, pp_opts)

        compiler._compile = _compile
        super().build_extensions()
        self.build_libraries()

    def copy_extensions_to_source(self) -> None:
        super().copy_extensions_to_source()
        self.build_libraries()  # in place

    def build_libraries(self) -> None:
        """Libraries that are no extensions of Python.  Without one its command alone is missing,
        so a failure is told and not raised."""
        package = Path(self.get_ext_fullpath("tracekit._core")).parent
        for source, name, command in LIBRARIES:
            out = package / name
            sources = sorted(str(p) for p in Path(source).glob("*.c"))
            depends = [
                *sources,
                *(str(p) for s in ("h", "inc") for p in Path(source).glob(f"*.{s}")),
            ]
            depends += [FORM_KERNELS, FORMS] if "measure" in source else []
            if not sys.platform.startswith("linux") or not newer_group(depends, str(out)):
                continue
            out.parent.mkdir(parents=True, exist_ok=True)
            compiler = shlex.split(os.environ.get("CC", "cc"))
            call = [*compiler, *C_FLAGS, f"-Wl,-soname,{out.name}", "-o", str(out), *sources]
            call += ["-s", f"-I{INCLUDE.parent}"]
            try:
                if "measure" in source:
                    write_form_kernels()
                subprocess.run(call, check=True)
            except (OSError, subprocess.CalledProcessError) as e:
                print(f"warning: no {out.name} ({e}): {command} will not work")


class BuildPy(build_py):
    """build_py that puts the plug-in's sources into the package (tracekit/plugin.py)."""

    def run(self) -> None:
        super().run()
        for folder in [] if self.editable_mode else PLUGIN:
            for path in sorted(p for p in Path(folder).iterdir() if p.is_file()):
                if path.suffix not in (".cpp", ".pyc"):
                    target = Path(self.build_lib, "tracekit", "gem5_plugin", path)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, target)


# setuptools builds the files of one extension in turn; all cores, unless TRACEKIT_JOBS says fewer.
ParallelCompile("TRACEKIT_JOBS").install()

core = Pybind11Extension(
    "tracekit._core",
    # the groups first: they take longest
    [
        *write_binding_groups(),
        *sorted(str(p) for p in Path("csrc").rglob("*.cpp") if not APART & set(p.parts)),
    ],
    include_dirs=["csrc", "tracekit/include"],
    depends=[*HEADERS, *sorted(str(p) for p in Path("csrc/bind").glob("*.cpp"))],
    extra_compile_args=FLAGS,
)
cython = [
    Extension(
        str(p.with_suffix("")).replace("/", "."),
        [str(p)],
        language="c++",
        include_dirs=["csrc", "tracekit/include", numpy.get_include()],
        depends=HEADERS,
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        extra_compile_args=FLAGS,
    )
    for p in sorted(Path("tracekit").rglob("*.pyx"))
]
setup(
    # generated C++ stays out of the package, and so out of the wheel
    ext_modules=[core, *cythonize(cython, language_level=3, build_dir="build/cython")],
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
)
