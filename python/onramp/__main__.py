"""Entry of the `onramp` command. Its modules take a second to load: Ctrl-C meets no traceback then either."""

import sys


def main() -> None:
    """Run the command."""
    try:
        from onramp import cli
    except KeyboardInterrupt:
        print("onramp: stopped before there were results", file=sys.stderr)
        sys.exit(130)
    cli.main()


if __name__ == "__main__":
    main()
