"""The program: ``tracekit``, ``python -m tracekit``.

Ctrl-C ends it with 130 from here on.  While modules are imported nothing is to be cleaned up, and
an exception there would come out of the import system in any shape: the process ends at once.
Once a command runs, KeyboardInterrupt is raised, so that it can clean up.
"""

import sys


def _leave(*_: object) -> None:
    import os

    os.write(2, b"tracekit: interrupted\n")
    os._exit(130)


def run() -> None:
    """The program's entry point; ends the process."""
    try:
        import signal

        asked = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # nohup ignores it
        if asked:
            signal.signal(signal.SIGINT, _leave)
        from tracekit.cli.main import main, retried

        def ready() -> None:
            if asked:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                sys.unraisablehook = retried

        code = main(ready=ready)
        if asked:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # what was asked for is done
    except KeyboardInterrupt:
        _leave()
    sys.exit(code)


if __name__ == "__main__":
    run()
