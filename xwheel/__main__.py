"""``python -m xwheel`` is the ``xwheel`` command."""

from xwheel.cli import main

main()
