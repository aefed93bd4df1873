"""The commands, by what they are for: each is a module of this folder with add_parser and run."""

from __future__ import annotations

from typing import Final

#: Title of a group -> command -> what it does.
GROUPS: Final[dict[str, dict[str, str]]] = {
    "traces": {
        "record": "a running program to a recording (.tks)",
        "extract": "a trace to a feats.zst",
        "info": "what a feats.zst holds",
        "verify": "check every checksum and invariant of a feats.zst",
        "check": "a trace's counts against those of gem5's stats.txt",
        "dump": "rows as CSV or JSON lines",
        "export": "to Parquet, Arrow or NumPy files",
        "view": "rows in the pipeline, for Konata or Perfetto",
        "diff": "two traces of one program, row by row and column by column",
        "epochs": "epochs of 100,000 instructions, and how many are distinct",
        "simpoints": "which intervals stand for a program, in SimPoint's files",
        "hot": "the functions, lines or files that the instructions were in",
        "mrc": "miss ratios of fully associative LRU caches of every size",
    },
    "times of programs, and why": {
        "simulate": "time of a program on machines given by their parameters",
        "predict": "time of a program on every known machine",
        "compare": "designs against one another, instruction by instruction",
        "why": "why a program takes its time on a machine, and what would help",
        "what-if": "time of a program after changes of a machine's parameters",
        "explain": "where the difference of two times sits, by cause and function",
        "report": "one HTML file: where the time goes on machines, and why",
        "machines": "the machines known by name, and what their parameters mean",
        "dse": "rank a grid of designs by an objective",
    },
    "this computer": {
        "calibrate": "this computer as a machine: its caches, queues and instructions, measured",
        "validate": "predicted times of programs against those of this computer",
        "measure": "add this computer to a model, from programs' times (see calibrate first)",
    },
    "models": {
        "join": "targets on many machines beside one copy of the features",
        "factory": "ground truth by gem5: a plan's programs on its machines, as a dataset",
        "train": "a model folder from a dataset",
        "tune": "add a machine to a model, from short timed traces",
        "suggest": "which programs to run on a new machine",
        "evaluate": "errors of trained models on seen and unseen programs",
        "cross-validate": "errors of a model on unseen programs and machines, by folds",
        "quantize": "int8 weights for a model, calibrated on traces",
        "neutrino": "a model on NeuroScalar's accelerator: cycles, buffers, speed",
    },
    "many computers": {
        "runs": "what a run over many traces has done, what failed and why",
        "agent": "samples this computer's programs and predicts them on designs",
        "hub": "collects what agents of a fleet predict, and shows which design is best",
        "models": "models of a signed repository: trust it, list, get, update",
        "repo": "a signed repository of models and machines: make it, add, sign, publish",
    },
    "others": {
        "plugin": "the gem5 plug-in's sources to a folder",
        "completion": "a shell's completion of commands and options, on standard output",
    },
}

COMMANDS: Final = {name: text for group in GROUPS.values() for name, text in group.items()}
