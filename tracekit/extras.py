"""Packages that only some commands need, and the extra that installs each."""

from __future__ import annotations

from tracekit.errors import UsageError

__all__ = ["DISTRIBUTION", "EXTRAS", "install_command", "needed"]

#: What the package index calls this: the index's ``tracekit`` is another project.
DISTRIBUTION = "tracekit-cpu"

#: Import name -> the extra of pyproject.toml.
EXTRAS = {
    "numba": "infer",
    "llvmlite": "infer",
    "torch": "train",
    "safetensors": "train",
    "capstone": "binary",
    "elftools": "binary",
    "pyarrow": "export",
    "matplotlib": "plot",
    "lz4": "lz4",
    "shtab": "completion",
    "dask": "cluster",
    "distributed": "cluster",
    "fsspec": "cluster",
    "s3fs": "cluster",
    "sklearn": "simpoint",
    "cryptography": "agent",
    "psutil": "agent",
    "securesystemslib": "agent",
    "tuf": "agent",
    "alembic": "hub",
    "anyio": "hub",
    "jinja2": "hub",
    "psycopg": "postgresql",
    "sqlalchemy": "hub",
    "starlette": "hub",
    "uvicorn": "hub",
}


def install_command(extra: str) -> str:
    """The command that installs an extra, quoted for every shell."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def needed(module: str) -> UsageError | None:
    """The error for a module that is not installed; None where no extra has it."""
    name = module.partition(".")[0]
    if name not in EXTRAS:
        return None
    return UsageError(
        f"this needs {name}, which is not installed", hint=install_command(EXTRAS[name])
    )
