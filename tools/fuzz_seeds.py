#!/usr/bin/env python3
"""fuzz_seeds.py TARGET FOLDER: write first inputs for a fuzz target, and FOLDER.dict, words that
libFuzzer inserts.

They are made from the fixtures, the tests' texts and fuzz_*.py; with RUSHLIGHT_CORPUS (a built
corpus) from its small archives too. An archive becomes an input of sections: see fuzz/fuzz.h.
"""

from __future__ import annotations

import hashlib
import pathlib
import sys
import zipfile
from collections.abc import Iterator

TOP = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(TOP / "tests" / "python"))

import archives  # noqa: E402
from fuzz_archives import (  # noqa: E402
    MOST_BYTES,
    code_of_files,
    data_files,
    files,
    legacy_variants,
    pickles,
    section_seeds,
    text,
    zips,
)
from fuzz_exports import crafted, exported, saved, small_exports  # noqa: E402
from fuzz_texts import ARCHIVED, GRAPHS, SCHEMAS, TEXT, texts_of_tests  # noqa: E402

JSON = (
    rb'{"a": [1, -2.5e10, null, true, false, "\u00e9\ud83d\ude00\n\"\\\/\b\f\r\t"], "b": {"c": '
    rb'{}, "e": []}, "d": NaN, "i": -Infinity}'
)


def seeds(target: str) -> Iterator[bytes]:
    if target == "zip":
        yield from zips()
        yield from (p.read_bytes() for p in sorted((TOP / "tests" / "data").glob("*.pt*")))
    elif target == "pickle":
        yield from pickles()
        yield from section_seeds("data.pkl")
        yield from saved()
    elif target == "model":
        yield JSON
        yield from section_seeds("models/model.json")
        yield from crafted()
        yield from exported()
    elif target == "export":
        yield from small_exports()
    elif target == "source":
        yield from texts_of_tests()
        yield TEXT.encode() + b"\n@@version\n3\n"
        state = text(b"training") + b"\x89" + text(b"a") + b"K\x01" + text(b"0") + b"K\x02"
        yield (
            ARCHIVED.encode()
            + b"\n@@data.pkl\n\x80\x02c__torch__\nM\n)\x81}("
            + state
            + b"ub.\n@@version\n3\n"
        )
        for part in ("forward", "other"):
            yield (
                ARCHIVED.replace("forward(self", "x(self")
                .replace(part + "(self", "forward(self")
                .encode()
                + b"\n@@version\n3\n"
            )
        yield from section_seeds("code/__torch__.py")
        yield from code_of_files()
    elif target == "schema":
        lines = [
            x
            for x in (TOP / "src" / "ops" / "table" / "schemas.txt").read_text().splitlines()
            if x and x[0] != "#"
        ]
        yield from (x.encode() for x in SCHEMAS + lines[::60])
    elif target == "ir":
        yield from (x.encode() for x in GRAPHS)
    elif target == "operators":
        names = (
            x.split("(")[0]
            for x in (TOP / "src" / "ops" / "table" / "schemas.txt").read_text().splitlines()
            if x and x[0] != "#"
        )
        yield from (
            f"{x}\n".encode()
            for x in names
            if x.partition("::")[0] in ("aten", "prim", "quantized")
        )
    elif target == "archive":
        for data in files():
            yield data
            try:
                yield archives.pack(
                    archives.records(data), aligned=False
                )  # stored, so that a mutation reaches the records
            except zipfile.BadZipFile:
                pass
        yield from legacy_variants()
        yield from data_files()
        yield b"not an archive"


WORDS = {
    "zip": [
        "PK\\x01\\x02",
        "PK\\x03\\x04",
        "PK\\x05\\x06",
        "PK\\x06\\x06",
        "PK\\x06\\x07",
        "\\x01\\x00\\x10\\x00",
        "../",
        "\\xff\\xff\\xff\\xff",
    ],
    "pickle": """ctorch._utils\\x0a_rebuild_tensor_v2\\x0a ctorch._utils\\x0a_rebuild_parameter\\x0a ctorch._utils\\x0a_rebuild_qtensor\\x0a
        ctorch.jit._pickle\\x0abuild_intlist\\x0a ctorch.jit._pickle\\x0abuild_tensorlist\\x0a ctorch.jit._pickle\\x0arestore_type_tag\\x0a
        ccollections\\x0aOrderedDict\\x0a c__torch__\\x0aM\\x0a c__torch__\\x0aPair\\x0a c__torch__\\x0aColor\\x0a c__torch__\\x0aPoint\\x0a
        ctorch\\x0adevice\\x0a cbuiltins\\x0acomplex\\x0a cbuiltins\\x0aset\\x0a storage FloatStorage \\x80\\x02 )\\x81 ub.
        \\x0a@@data/2\\x0a""".split(),
    "model": """"as_tensor" "as_tensors" "as_int" "as_ints" "as_float" "as_floats" "as_bool" "as_bools" "as_none" "as_string" "as_sym_int"
        "as_sym_ints" "as_graph" "as_scalar_type" "as_device" "as_layout" "as_memory_format" "as_optional_tensors" "as_sym_bool" "as_expr"
        "as_name" "inputs" "outputs" "nodes" "target" "name" "arg" "metadata" "user_input" "parameter" "buffer" "tensor_constant"
        "user_output" "buffer_mutation" "user_input_mutation" "range_constraints" "min_val" "max_val" "graph_module" "signature"
        "torch.ops.aten.add.Tensor" "torch.ops.higher_order.cond" "torch.ops.higher_order.while_loop" "torch.ops.higher_order.scan"
        "torch.ops.higher_order.wrap_with_set_grad_enabled" "_operator.add" "torch.sym_ite" null true 1 -1 0.5 [] {}""".split(),
    "export": [],
    "source": """def class return if elif else for while in not and or is None True False pass break continue raise assert with as lambda
        import from global del yield async await try except finally __torch__. self : -> \\x0a\\x20\\x20 annotate( unchecked_cast(
        uninitialized( torch. ops.prim. ops.aten. List[ Dict[ Tuple[ Optional[ Union[ Tensor int float str bool complex Any NamedTuple Enum
        Module Interface __parameters__ __buffers__ f\\" \\" ''' ** // << >= != += *= @ ~ ... := CONSTANTS.c0 range( zip( enumerate( len(
        isinstance( getattr( hasattr( sorted( \\x0a@@data.pkl\\x0a""".split(),
    "schema": """Tensor Scalar int float bool str complex Dict( Future( RRef( Await( Union( Optional[ List( Generator Device Layout ScalarType
        MemoryFormat SymInt Any (a!) (a) (a|b) (*) -> [] [2] ? = * ... None True False Mean contiguous_format strided long
        __torch__.torch.classes. t1 NoneType Storage Stream""".split(),
    "ir": """graph( %x return ( prim::Constant[value= prim::If( prim::Loop( block0( block1( aten::add( prim::ListConstruct( prim::TupleConstruct(
        prim::fork_0 with : = -> Tensor int float str bool NoneType Device complex int[] int? Dict(str,\\x20int) Future[ Float( strides=[
        requires_grad= device=cpu { } [types=[ [name=" # __torch__.M Function""".split(),
    "operators": [],
    "archive": [
        "PK\\x01\\x02",
        "PK\\x03\\x04",
        "PK\\x05\\x06",
        "data.pkl",
        "code/",
        "constants.pkl",
        "version",
        "models/model.json",
        "\\x93NUMPY",
    ],
}


WORDS["export"] = [
    *WORDS["model"],
    *"""torch.ops.higher_order.map_impl torch.ops.higher_order.with_effects _operator.getitem torch.sym_float math.ceil Symbol('s77',
        positive=True integer=True) Integer( FloorDiv( Mul( Add( Pow( Mod( expr_str hint as_custom_obj class_fqn token loss_output in_spec
        out_spec children_spec builtins.tuple builtins.dict forward_arg_names guards_code L['x'].size()[0] verifiers TRAINING ATEN""".split(),
]


def main() -> None:
    target, folder = sys.argv[1].removeprefix("fuzz_"), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for data in seeds(target):
        if len(data) <= (2 * MOST_BYTES if target == "archive" else MOST_BYTES):
            (folder / hashlib.sha1(data).hexdigest()[:16]).write_bytes(data)
    words = (w.replace('"', '\\"') if '\\"' not in w else w for w in WORDS[target])
    folder.with_suffix(".dict").write_text("".join(f'"{w}"\n' for w in words))


if __name__ == "__main__":
    main()
