"""The command line: one module a command, each of which only calls the public API."""
