"""What keeps a program: its objects do; those that it holds as constants keep their type only, or
the two would never go."""

from __future__ import annotations

import gc

import pytest
import rushlight
from test_lying_types import program

CODE = """  def forward(self) -> __torch__.C:
    return CONSTANTS.c0
  def made(self) -> __torch__.C:
    c = __torch__.C.__new__(__torch__.C)
    c.a = 7
    return c
class C:
  a : int
  def get(self) -> int:
    return torch.add(self.a, 1)
"""
CONSTANT = b"c__torch__\nC\n)\x81}X\x01\x00\x00\x00aK\x03sb"


def test_an_object_keeps_its_program() -> None:
    made = rushlight.load(program(CODE, constants=CONSTANT)).made()
    gc.collect()
    assert made.get() == 8


def test_an_object_among_constants_is_called_while_its_module_is_there() -> None:
    module = rushlight.load(program(CODE, constants=CONSTANT))
    constant = module()
    assert constant.get() == 4
    del module
    gc.collect()
    assert constant.a == 3
    with pytest.raises(Exception, match="its module was released"):
        constant.get()
