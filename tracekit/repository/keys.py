"""Signing keys: Ed25519 in files of mode 0600, PKCS #8 PEM, encrypted where there is a
passphrase."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from securesystemslib.signer import CryptoSigner

from tracekit.errors import FormatError, TracekitError, UsageError
from tracekit.io.files import read_private
from tracekit.io.output import Folder, write_bytes

__all__ = ["KeyFolder", "check_new", "make_key", "read_key", "read_keys"]

MAX_KEY = 16_384
MAX_KEYS = 64


def make_key(passphrase: bytes | None) -> tuple[CryptoSigner, bytes]:
    """A new key, and its file's bytes."""
    key = Ed25519PrivateKey.generate()
    lock: KeySerializationEncryption = (
        NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    )
    return CryptoSigner(key), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)


def read_key(path: str | Path, passphrase: bytes | None = None) -> CryptoSigner:
    """The key in a file.  Raises TracekitError where others may read the file, FormatError where
    it is no key of this kind, UsageError where the passphrase is missing or wrong."""
    data = read_private(path, MAX_KEY, of_others=True)  # root signs for whoever keeps the keys
    try:
        encrypted = b"ENCRYPTED" in data.split(b"\n", 1)[0]
        key = load_pem_private_key(data, passphrase if encrypted else None)
    except TypeError:
        raise UsageError(
            "the key is encrypted", path=str(path), hint="--passphrase-file FILE"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        if encrypted:
            raise UsageError("the passphrase is not this key's", path=str(path)) from None
        raise FormatError("is no private key in PEM", path=str(path)) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise FormatError("is no Ed25519 key", path=str(path))
    return CryptoSigner(key)


def read_keys(paths: list[Path], passphrase: bytes | None = None) -> dict[str, CryptoSigner]:
    """The keys in files, and in the ``.pem`` files of folders, by their identifiers."""
    files: list[Path] = []
    for path in paths:
        files += sorted(path.glob("*.pem")) if path.is_dir() else [path]
    if not 0 < len(files) <= MAX_KEYS:
        where = ", ".join(map(str, paths))
        raise UsageError(f"{len(files)} keys; 1 to {MAX_KEYS} are needed", path=where)
    signers = (read_key(f, passphrase) for f in files)
    return {s.public_key.keyid: s for s in signers}


def check_new(path: str | Path) -> None:
    """Raise TracekitError where something has that name: keys and what they signed are not
    replaced."""
    if os.path.lexists(path):
        raise TracekitError("exists already", path=str(path), hint="another name is needed")


class KeyFolder:
    """A new folder of keys, of this user alone; TracekitError where it exists."""

    def __init__(self, path: str | Path, passphrase: bytes | None) -> None:
        check_new(path)
        self._folder = Folder(path, mode=0o700)
        self._passphrase = passphrase

    def make(self, name: str) -> CryptoSigner:
        """A new key in ``name.pem``."""
        signer, data = make_key(self._passphrase)
        write_bytes(self._folder.temporary / f"{name}.pem", data, mode=0o600)
        return signer

    def commit(self) -> None:
        """Keep it."""
        self._folder.commit()

    def __enter__(self) -> KeyFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.discard()
