"""Build of the two kinds of extension: tracekit._core (pybind11, all of csrc/) and the Cython
modules.

Sources are found by folder, so that a new file needs no edit here.  A file that is compiled for a
wider instruction set says so in its name (``*_avx2.cpp``, ``*_avx512.cpp``); it is chosen at run
time (csrc/core/cpu.hpp), so what is built never depends on the machine that builds it.
"""

import platform
from pathlib import Path

import numpy
from Cython.Build import cythonize
from pybind11.setup_helpers import ParallelCompile, Pybind11Extension
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

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
FLAGS = ["-O3", "-std=c++20", "-fvisibility=hidden", "-Wall", "-Wextra", "-fno-math-errno"]


class BuildExt(build_ext):
    """build_ext that adds a file's own instruction-set flags."""

    def build_extensions(self) -> None:
        compile_one = self.compiler._compile

        def _compile(obj, src, ext, cc_args, extra_postargs, pp_opts):
            extra = list(extra_postargs)
            for suffix, flags in WIDER.items():
                if X86 and Path(src).stem.endswith(suffix):
                    extra += flags
            return compile_one(obj, src, ext, cc_args, extra, pp_opts)

        self.compiler._compile = _compile
        super().build_extensions()


# setuptools builds the files of one extension in turn; all cores, unless TRACEKIT_JOBS says fewer.
ParallelCompile("TRACEKIT_JOBS").install()

core = Pybind11Extension(
    "tracekit._core",
    sorted(
        str(p)
        for p in Path("csrc").rglob("*.cpp")
        if "fuzz" not in p.parts and "test" not in p.parts
    ),
    include_dirs=["csrc"],
    depends=sorted(str(p) for p in Path("csrc").rglob("*.[hd]*")),
    extra_compile_args=FLAGS,
)
cython = [
    Extension(
        str(p.with_suffix("")).replace("/", "."),
        [str(p)],
        language="c++",
        include_dirs=["csrc", numpy.get_include()],
        depends=sorted(str(p) for p in Path("csrc").rglob("*.[hd]*")),
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        extra_compile_args=FLAGS,
    )
    for p in sorted(Path("tracekit").rglob("*.pyx"))
]
setup(
    ext_modules=[core, *cythonize(cython, language_level=3)],
    cmdclass={"build_ext": BuildExt},
)
