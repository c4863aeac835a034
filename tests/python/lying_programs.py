"""Programs that lie: small archives, nearly right, with one or two places where a value is not what
its type says.

A seed says the whole case: the archive's bytes, the command's arguments, the type of the result,
and the names of the lies in it.  Four in five are TorchScript (lying_world.py, and the lies of
lying_code.py, lying_classes.py and lying_pickles.py), the others exported programs
(lying_exports.py).
"""

from __future__ import annotations

import random

import lying_classes
import lying_code
import lying_exports
import lying_pickles
from lying_world import LIES, Case, Maker

KINDS = (lying_classes, lying_code, lying_pickles)  # imported, they fill LIES


def torchscript(seed: int) -> Case:
    rng = random.Random(seed)
    m = Maker(rng)
    names, weights = list(LIES), [w for _, w in LIES.values()]
    for _ in range(rng.choice([1, 1, 1, 2])):
        name = rng.choices(names, weights)[0]
        m.kinds.append(name)
        LIES[name][0](m)
    return m.finish(seed)


def case(seed: int) -> Case:
    return lying_exports.case(seed) if seed % 5 == 0 else torchscript(seed)
