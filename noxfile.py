"""``nox`` runs tests, lint and docs; ``nox -s benches`` and ``nox -s mutants`` take longer.

Each has a virtual environment of its own; ``nox -R`` uses those that are there.
"""

import nox

nox.options.sessions = ["tests", "lint", "docs"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
def tests(session: nox.Session) -> None:
    """Plain pytest; ``nox -s tests -- -m ci`` adds what of the slow tests is essential."""
    session.install(".[test]")
    session.run("pytest", *session.posargs)


@nox.session
def lint(session: nox.Session) -> None:
    """Style and types of Python, style of C++; nothing is compiled for it."""
    project = nox.project.load_toml("pyproject.toml")["project"]
    extras = project["optional-dependencies"]
    session.install(*project["dependencies"], *extras["test"], *extras["dev"])
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    files = session.run("git", "ls-files", "csrc/*.cpp", "csrc/*.hpp", external=True, silent=True)
    session.run("clang-format", "--dry-run", "--Werror", *(files or "").split())


@nox.session
def docs(session: nox.Session) -> None:
    """The site; warnings and broken internal links are errors."""
    session.install(".[docs]")
    session.run("sphinx-build", "-W", "-b", "html", "docs", "build/site")


@nox.session
def benches(session: nox.Session) -> None:
    """Each stage beside its floor and its peers; means something on an idle machine only."""
    session.install(".[test]")
    session.run("pytest", "--benchmark-only", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Does a test fail where one constant, comparison or operator is changed?  40 minutes."""
    session.install("-e", ".[test]")
    session.run("python", "tests/mutate.py", *session.posargs, env={"PYTHONPATH": "."})
