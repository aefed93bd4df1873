"""The processes of one training: a single one, or those that torchrun started (DDP)."""

from __future__ import annotations

import os
from typing import Any

from tracekit.infer_torch.devices import check_device

__all__ = ["Workers"]


class Workers:
    """``rank`` of ``world`` processes on ``device`` ("auto": a GPU where there is one).  Raises
    UsageError for a device that is none.

    Every process computes its share of the streams; ``leads`` is true of the one that writes files
    and decides.
    """

    def __init__(self, torch: Any, device: str = "auto") -> None:
        self._torch = torch
        self.rank = int(os.environ.get("RANK", "0"))
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        if device == "auto":
            gpu = torch.cuda.is_available()
        else:
            gpu = check_device(torch, device) != "cpu"
        if gpu and device in ("auto", "cuda"):
            device = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
        self.device: str = device if gpu or device != "auto" else "cpu"
        self._started = False
        if self.world > 1 and not torch.distributed.is_initialized():
            torch.distributed.init_process_group("nccl" if gpu else "gloo")
            self._started = True

    @property
    def leads(self) -> bool:
        """Whether this process writes the files."""
        return self.rank == 0

    def wrap(self, network: Any) -> Any:
        """The network, its gradients averaged over the processes."""
        if self.world == 1:
            return network
        return self._torch.nn.parallel.DistributedDataParallel(network)

    def gather(self, x: Any, dim: int) -> Any:
        """Every process's tensor, side by side along ``dim`` in the order of ranks."""
        if self.world == 1:
            return x
        parts = [self._torch.empty_like(x) for _ in range(self.world)]
        self._torch.distributed.all_gather(parts, x.contiguous())
        return self._torch.cat(parts, dim)

    def total(self, x: Any) -> Any:
        """The sum over the processes."""
        if self.world > 1:
            self._torch.distributed.all_reduce(x)
        return x

    def decide(self, value: int) -> int:
        """What the leading process says, in all of them."""
        if self.world == 1:
            return value
        said = self._torch.tensor([value], device=self.device)
        self._torch.distributed.broadcast(said, 0)
        return int(said.item())

    def close(self) -> None:
        """Leave the group."""
        if self._started:
            self._torch.distributed.destroy_process_group()
            self._started = False
