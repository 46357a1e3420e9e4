"""Build the compiled time ring and wheel of timeouts; everything else stands in ``pyproject.toml``."""

import os

from setuptools import Extension, setup

REQUIRED = os.environ.get("XWHEEL_REQUIRE_EXTENSIONS") == "1"
FORBIDDEN = os.environ.get("XWHEEL_NO_EXTENSIONS") == "1"

if FORBIDDEN:
    extensions = []
else:
    from Cython.Build import cythonize

    extensions = cythonize(
        [
            Extension(f"xwheel.{name}", [f"xwheel/{name}.pyx"], extra_compile_args=["-O3"], optional=not REQUIRED)
            for name in ("_ring", "_timer")
        ],
        compiler_directives={"language_level": 3, "embedsignature": True, "binding": True, "auto_pickle": False},
    )

# both at once: the wait for the first `make run` is mostly this
setup(ext_modules=extensions, options={"build_ext": {"parallel": 2}})
