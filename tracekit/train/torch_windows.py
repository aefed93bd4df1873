"""Windows of traces as a torch dataset (docs/training-elsewhere.md)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch.utils.data import IterableDataset, get_worker_info

from tracekit.dataset.shards import Windows, taken
from tracekit.errors import UsageError

__all__ = ["TorchWindows"]


class TorchWindows(IterableDataset):  # type: ignore[type-arg,unused-ignore]
    """The windows of `tracekit.dataset.Windows` as tensors: float32 [length, columns] and
    [length] targets.

    A `DataLoader`'s workers share the chunks out among them, and so do the ``ranks`` processes of a
    distributed training, of which this is ``rank``.  `set_epoch` chooses the order of an epoch,
    also for workers that live on.  `go_on` begins the next pass where another one was left.
    torchdata's ``StatefulDataLoader`` keeps and restores each worker's place itself, by
    `state_dict`.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
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
        if not 0 <= rank < ranks:
            raise UsageError(f"rank {rank} of {ranks}")
        self._rank, self._ranks = rank, ranks
        _ = self.windows.starts  # here once, instead of in each worker
        # Shared memory, which the workers that were started already see, too: the epoch, how many
        # batches of it were had, of how many windows each, and the workers that loaded them.
        self._place = torch.zeros(4, dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call,unused-ignore]
        self._begin = self._taken = 0  # in the next pass, and in the one that goes on

    def set_epoch(self, epoch: int) -> None:
        """The order of the epoch that begins next, from its start."""
        self._place[0] = epoch
        self._place[1:] = 0
        self._begin = 0

    def go_on(self, epoch: int, batches: int, batch_size: int, workers: int = 0) -> None:
        """The next pass is the rest of an epoch of which a `DataLoader` with that ``batch_size``
        and so many ``workers`` has given the first ``batches``, on each rank.

        The loader must have as many workers again; the batches are those that would have followed,
        until the first worker has no more.
        """
        if batches < 0 or batch_size < 1 or workers < 0:
            raise UsageError("go_on: batches and workers from 0 on, a batch_size from 1 on")
        self._place[:] = torch.tensor([epoch, batches, batch_size, max(1, workers)])

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        info = get_worker_info()
        worker, workers = (0, 1) if info is None else (info.id, info.num_workers)
        epoch, batches, size, before = self._place.tolist()
        shards = self._ranks * workers
        skip, self._begin = self._begin, 0
        if batches:
            if workers != before:
                raise UsageError(f"{before} workers loaded the first part, and {workers} the rest")
            # The worker whose turn it was comes first.
            worker = (worker + batches) % workers
            counts = self.windows.counts(epoch, shards)[self._rank * workers :][:workers]
            skip = taken(counts, batches, size)[worker]
        number = self._rank * workers + worker
        self._taken = skip
        for x, y in self.windows.shard(epoch, number, shards, skip):
            self._taken += 1
            yield torch.from_numpy(x), torch.from_numpy(y)

    def state_dict(self) -> dict[str, int]:
        """A worker's place in its pass, for ``StatefulDataLoader``."""
        return {"epoch": int(self._place[0]), "taken": self._taken}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """The pass that begins next goes on at that place."""
        self.set_epoch(int(state["epoch"]))
        self._begin = int(state["taken"])
