"""A group of commands that answers a mistyped name with the nearest one."""

from difflib import get_close_matches

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
            near = get_close_matches(word, known, 1)
            guess = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}."
            raise click.UsageError(f"No such command {word!r}. {guess}", ctx)
        return super().resolve_command(ctx, args)
