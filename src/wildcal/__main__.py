"""Make `python -m wildcal` the same as the `wildcal` command."""

from wildcal.cli.main import main

main()
