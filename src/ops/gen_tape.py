"""Formulas of the operator table become tapes (see tape.h).  Used by gen.py."""


class ExprError(Exception):
    """A formula is wrong, or says what no primitive does."""


class Primitives:
    """The primitives of tape.def."""

    def __init__(self, path):
        self.path = path


def compile_entry(tapes, schema, entry):
    raise ExprError("formulas are not compiled yet")


def write(w, points, tapes, pool):
    pass
