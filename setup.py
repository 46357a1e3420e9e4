"""Build the compiled time ring; everything else stands in ``pyproject.toml``."""

import os

from setuptools import Extension, setup

REQUIRED = os.environ.get("XWHEEL_REQUIRE_EXTENSIONS") == "1"
FORBIDDEN = os.environ.get("XWHEEL_NO_EXTENSIONS") == "1"

if FORBIDDEN:
    extensions = []
else:
    from Cython.Build import cythonize

    extensions = cythonize(
        [Extension("xwheel._ring", ["xwheel/_ring.pyx"], extra_compile_args=["-O3"], optional=not REQUIRED)],
        compiler_directives={
            "language_level": 3,
            "embedsignature": True,
            "binding": True,
            "auto_pickle": False,
        },
    )

setup(ext_modules=extensions)
