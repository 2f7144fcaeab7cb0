"""What the references of random_checkpoints.py share."""
import pathlib

import torch
from safetensors.torch import save_file

DATA = pathlib.Path(__file__).resolve().parent.parent / "data"
GREEDY, CLEAR = 8, 1e-3


class Unmade(Exception):
    """The reference does not take the configuration: another one is drawn."""


def greedy_ids(last, step):
    """As long as the likeliest token leads clearly. step: an id -> the next logits."""
    out = []
    while len(out) < GREEDY:
        first, second = last.topk(2).values.tolist()
        if first - second <= CLEAR * max(abs(first), abs(second)):
            break
        out.append(int(last.argmax()))
        last = step(out[-1])
    return out


def save_golden(folder, ids, logits, step):
    if not torch.isfinite(logits).all() or logits.abs().max() == 0:
        raise Unmade("logits that are 0 or not finite")
    golden = {"input_ids": torch.tensor(ids, dtype=torch.int32), "logits": logits.contiguous()}
    ids = greedy_ids(logits[-1], step)
    if ids:
        golden["greedy_ids"] = torch.tensor(ids, dtype=torch.int32)
    save_file(golden, folder / "golden.safetensors")
