"""Windows of traces as a torch dataset (docs/training-elsewhere.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch.utils.data import IterableDataset, get_worker_info

from tracekit.dataset.shards import Windows

__all__ = ["TorchWindows"]


class TorchWindows(IterableDataset):  # type: ignore[type-arg,unused-ignore]
    """The windows of `tracekit.dataset.Windows` as tensors: float32 [length, columns] and
    [length] targets.

    A `DataLoader`'s workers share the chunks out among them, and so do the ``ranks`` processes of a
    distributed training, of which this is ``rank``.  `set_epoch` chooses the order of an epoch,
    also for workers that live on.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        features: str = "perfvec",
        length: int = 256,
        *,
        stride: int | None = None,
        target: Literal["cycles", "ticks"] = "cycles",
        shuffle: int | None = None,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        self.windows = Windows.of(
            paths, features, length, stride=stride, target=target, shuffle=shuffle
        )
        self._rank, self._ranks = rank, ranks
        # Shared memory, which the workers that were started already see, too.
        self._epoch = torch.zeros(1, dtype=torch.int64).share_memory_()

    def set_epoch(self, epoch: int) -> None:
        """The order of the epoch that begins next."""
        self._epoch.fill_(epoch)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        number, shards = self._rank * workers + worker, self._ranks * workers
        for x, y in self.windows.shard(int(self._epoch.item()), number, shards):
            yield torch.from_numpy(x), torch.from_numpy(y)
