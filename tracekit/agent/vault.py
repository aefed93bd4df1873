"""Traces at rest: AES-256-GCM, the key in a file of mode 0600 or given by systemd."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tracekit.errors import FormatError, TracekitError
from tracekit.io.files import read_limited, read_private
from tracekit.io.output import write_bytes

__all__ = ["CREDENTIAL", "Vault", "trace_key"]

CREDENTIAL: Final = "tracekit-agent-key"
"""The name of systemd's credential."""
_HEAD: Final = b"tkv1"
_NONCE: Final = 12
MAX_KEY: Final = 4096


class Vault:
    """Encrypts with ``key`` (32 bytes); each text is bound to its ``name``."""

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)

    def seal(self, data: bytes, name: str) -> bytes:
        """The file's content."""
        nonce = os.urandom(_NONCE)
        return bytes(_HEAD + nonce + self._cipher.encrypt(nonce, data, _HEAD + name.encode()))

    def open(self, sealed: bytes, name: str) -> bytes:
        """What `seal` was given; `FormatError` for another key or name, or a changed text."""
        from cryptography.exceptions import InvalidTag

        body = sealed[len(_HEAD) :]
        if not sealed.startswith(_HEAD) or len(body) < _NONCE + 16:
            raise FormatError("is no sealed trace", path=name)
        try:
            return bytes(self._cipher.decrypt(body[:_NONCE], body[_NONCE:], _HEAD + name.encode()))
        except InvalidTag:
            raise FormatError("is not what was sealed under this key and name", path=name) from None


def trace_key(folder: Path) -> bytes:
    """The key of the traces in ``folder``: systemd's credential where there is one, else the file
    ``key`` there, made with 32 random bytes where it is missing.

    Raises `TracekitError` where others may read the file, or it does not hold 32 bytes.
    """
    given = os.environ.get("CREDENTIALS_DIRECTORY")
    path = folder / "key"
    if given and (Path(given) / CREDENTIAL).exists():
        path = Path(given) / CREDENTIAL  # systemd's own folder, which it protects
        key = read_limited(path, MAX_KEY)
    else:
        if not path.exists():
            write_bytes(path, os.urandom(32), mode=0o600)
        key = read_private(path, MAX_KEY)
    if len(key) != 32:
        raise TracekitError(f"holds {len(key)} bytes; a key has 32", path=str(path))
    return key
