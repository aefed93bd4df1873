"""The model folder that training writes and inference reads (docs/model-format.md); NumPy only."""

from tracekit.model.card import Card, folder_digest, load_card, load_tensors, save_card, save_model
from tracekit.model.spec import Head, InputColumn, Layer, ModelSpec
from tracekit.model.tensors import read_safetensors, write_safetensors

__all__ = [
    "Card",
    "Head",
    "InputColumn",
    "Layer",
    "ModelSpec",
    "folder_digest",
    "load_card",
    "load_tensors",
    "read_safetensors",
    "save_card",
    "save_model",
    "write_safetensors",
]
