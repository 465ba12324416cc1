"""Groups of commands: one answers a mistyped name with the nearest, one imports what is run."""

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import click


class SuggestingGroup(click.Group):
    """A group whose error for an unknown command names the one that was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word, or say what it could have been."""
        word = args[0] if args else ""
        known = self.list_commands(ctx)
        if args and word not in known and not word.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(word, known, 1)
            guess = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}."
            raise click.UsageError(f"No such command {word!r}. {guess}", ctx)
        return super().resolve_command(ctx, args)


class Later(NamedTuple):
    """A command that is imported when it runs."""

    module: str
    attribute: str
    help: str
    """The first sentence of its help, for the list of commands."""


class LaterGroup(SuggestingGroup):
    """A group that imports no command but the one that is run."""

    later: Mapping[str, Later]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(self.later)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported by now."""
        found = self.later.get(cmd_name)
        if found is not None and cmd_name not in self.commands:
            self.add_command(getattr(import_module(found.module), found.attribute), cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, without importing them."""
        limit = formatter.width - 6 - max(map(len, self.later))
        rows = [
            (name, click.Command(name, help=self.later[name].help).get_short_help_str(limit))
            for name in self.list_commands(ctx)
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
