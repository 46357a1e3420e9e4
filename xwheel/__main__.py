"""``python -m xwheel`` is the ``xwheel`` command."""

from xwheel.cli.main import main

main()
