"""Modules that PyTorch and we script: test_script_modules.py compares what becomes of each.

A class stands for one manner of the language; `arguments` is what its forward is called with, one
input by default. What is refused must be refused by both.
"""

# ruff: noqa
# fmt: off
from typing import *

import torch
from torch import Tensor, nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()])
        self.d = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.ReLU()})
        self.q = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.p = nn.ParameterList([nn.Parameter(torch.ones(2))])
        self.pd = nn.ParameterDict({"a": nn.Parameter(torch.ones(2))})
        self.register_buffer("bb", torch.ones(2))
        self.w = nn.Parameter(torch.ones(2))


class InDict(Base):
    def forward(self,x):
        if 'a' in self.d: x = x+1
        return x


class InList(Base):
    def forward(self,x):
        return 'a' in self.l


class Params(Base):
    def forward(self,x):
        for p in self.parameters(): x = x+p
        return x


class Nparams(Base):
    def forward(self,x):
        for n,p in self.named_parameters(): x = x+p.sum()
        return x


class Buffers(Base):
    def forward(self,x):
        for p in self.buffers(): x = x+p
        return x


class Nbuffers(Base):
    def forward(self,x):
        for n,p in self.named_buffers(): x = x+p
        return x


class Nmodules(Base):
    def forward(self,x):
        for n,p in self.named_modules(): print(n)
        return x


class Modules(Base):
    def forward(self,x):
        for p in self.q.modules(): print(1)
        return x


class Children(Base):
    def forward(self,x):
        for p in self.q.children(): x=p(x)
        return x


class Nchildren(Base):
    def forward(self,x):
        for n,p in self.q.named_children(): x=p(x)
        return x


class Slice(Base):
    def forward(self,x):
        for p in self.q[1:]: x=p(x)
        return x


class Slice2(Base):
    def forward(self,x):
        return self.l[:1][0](x)


class Neg(Base):
    def forward(self,x):
        return self.l[-1](x)


class Oor(Base):
    def forward(self,x):
        return self.l[5](x)


class Var(Base):
    arguments = (0,)
    def forward(self,x, i:int):
        return self.l[i](x)


class Dvar(Base):
    arguments = ("a",)
    def forward(self,x, i:str):
        return self.d[i](x)


class Dkey(Base):
    def forward(self,x):
        return self.d['zz'](x)


class Len(Base):
    def forward(self,x):
        return len(self.l)+len(self.d)+len(self.q)+len(self.p)


class Plist(Base):
    def forward(self,x):
        for p in self.p: x=x+p
        return x+self.p[0]


class Pdict(Base):
    def forward(self,x):
        for k,p in self.pd.items(): x=x+p
        return x+self.pd['a']


class Iterself(Base):
    def forward(self,x):
        for p in self: x=x+p
        return x


class Dict(Base):
    def forward(self,x):
        for k in self.d: print(k)
        for k in self.d.keys(): print(k)
        for v in self.d.values(): x=v(x)
        return x


class Super(Base):
    def forward(self,x):
        return super().forward(x)


class Noattr(Base):
    def forward(self,x):
        return self.zork


class Setnon(Base):
    def forward(self,x):
        self.zork = x
        return x


class Listcomp(Base):
    def forward(self,x):
        ys = [l(x) for l in self.l]
        return ys[0]


class Dictcomp(Base):
    def forward(self,x):
        ys = {k: l(x) for k,l in self.d.items()}
        return ys


class Zip(Base):
    arguments = ([torch.ones(2, 2)] * 2,)
    def forward(self,x, xs: List[Tensor]):
        for (i,l),y in zip(enumerate(self.l), xs): x=l(x)+y+i
        return x


class Retmod(Base):
    def forward(self,x):
        a = self.l[0]
        return a.weight


class Hasattr(Base):
    def forward(self,x):
        if hasattr(self,'zork'):
            x = self.zork
        if hasattr(self,'w'): x=x+1
        return x


class Getattr(Base):
    def forward(self,x):
        return getattr(self,'w')+getattr(self,'zz',1)


class Isnone(Base):
    def forward(self,x):
        if self.l is not None: x=x+1
        return x


class Lists(Base):
    def forward(self,x):
        a = [self.l[0], self.l[0]]
        return x


class Modtuple(Base):
    def forward(self,x):
        for a,b in [(self.l[0],self.l[1])]: x=a(x)
        return x


class Iftrain(Base):
    def forward(self,x):
        if self.training: return x+1
        return x


class ModattrAssign(Base):
    def forward(self,x):
        self.w = x
        return self.w


class TrainingAssign(Base):
    def forward(self,x):
        self.training = False
        return self.training


class ConstIndexLoop(Base):
    def forward(self,x):
        for i in range(2): x = self.l[i](x)
        return x


class EnumerateIdx(Base):
    def forward(self,x):
        for i, m in enumerate(self.l): x = self.q[i](x)
        return x


class ListOfMods(Base):
    def forward(self,x):
        return [m(x) for m in self.q]


class Reversed(Base):
    def forward(self,x):
        for m in reversed(self.q): x=m(x)
        return x


class Kwargs(Base):
    def forward(self,x):
        return self.q(input=x)


class WrongArgs(Base):
    def forward(self,x):
        return self.q(x,x)


class MissingArgs(Base):
    def forward(self,x):
        return self.l[0]()


class ModuleAsBool(Base):
    def forward(self,x):
        if self.q: return x
        return x+1


class CallNonmodule(Base):
    def forward(self,x):
        return self.w(x)


class MethodWDefault(Base):
    def g(self,x,k: int=2): return x*k
    def forward(self,x):
        return self.g(x)+self.g(x,3)+self.g(x,k=4)


class Recursive(Base):
    def g(self,x,k: int) -> Tensor:
        return self.g(x,k-1)
    def forward(self,x):
        return self.g(x,2)


class Mutual(Base):
    def h(self,x): return x+1
    def g(self,x): return self.h(x)
    def forward(self,x):
        return self.g(self.h(x))


class ErrorInCallee(Base):
    def h(self,x): return zork(x)
    def forward(self,x):
        return self.h(x)


class ParamListIdxOor(Base):
    def forward(self,x):
        return self.p[3]


class ParamDictKey(Base):
    def forward(self,x):
        return self.pd['a']+x


class DictKeysList(Base):
    def forward(self,x):
        return [k for k in self.d.keys()], x


class DictVarLoop(Base):
    def forward(self,x):
        for k in ['a','b']: x = self.d[k](x)
        return x


class IsModuleNone(Base):
    def forward(self,x):
        if self.l[0] is None: return x
        return x+1


class IsinstanceModule(Base):
    def forward(self,x):
        if isinstance(self.l[0], nn.Linear): return x
        return x+1


class TypeComment(Base):
    def forward(self,x):
        # type: (Tensor) -> Tensor
        return self.l[0](x)


class GetattrModule(Base):
    def forward(self,x):
        return getattr(self.d,'a')(x)


class HasattrSub(Base):
    def forward(self,x):
        if hasattr(self.d,'a'): return x
        return x+1


class BuffersNamed(Base):
    def forward(self,x):
        for n,b in self.named_buffers(): x=x+b
        return x


class ChildrenOfSelf(Base):
    def forward(self,x):
        n=0
        for c in self.children(): n+=1
        return n


class NamedChildrenSelf(Base):
    def forward(self,x):
        ns: List[str]=[]
        for n,c in self.named_children(): ns.append(n)
        return ns


class IfTrainingCall(Base):
    def forward(self,x):
        y = self.q(x) if self.training else x
        return y


class NestedIndex(Base):
    def forward(self,x):
        return self.q[0].weight+self.l[0].bias


class AugParam(Base):
    def forward(self,x):
        self.bb += 1
        return self.bb


class AugParam2(Base):
    def forward(self,x):
        self.bb = self.bb*2
        return self.bb


class Del(Base):
    def forward(self,x):
        del self.bb
        return x


class Lambda(Base):
    def forward(self,x):
        f = lambda y: y
        return f(x)


class TupleUnpackMods(Base):
    def forward(self,x):
        a, b = self.q[0], self.q[1]
        return b(a(x))


class TorchFn(Base):
    def forward(self,x):
        return torch.nn.functional.relu(self.l[0](x))


class FImport(Base):
    def forward(self,x):
        return nn.functional.dropout(x, 0.0, self.training)


class Fork(Base):
    def forward(self,x):
        f = torch.jit.fork(self.l[0], x)
        return torch.jit.wait(f)


class Fork2(Base):
    def forward(self,x):
        f = torch.jit._fork(self.l[1].forward, x)
        return torch.jit._wait(f)


class Assert(Base):
    def forward(self,x):
        assert x.dim()==3, 'bad'
        return x


class Raise(Base):
    def forward(self,x):
        raise ValueError('no '+str(x.dim()))


class RetNone(Base):
    def forward(self,x):
        print('hi')


class Varargs(Base):
    def forward(self,*x):
        return x


class Kwonly(Base):
    def forward(self,x,*,k: int=2):
        return x*k


class NoSelf(Base):
    def forward():
        return 1


class RetSelf(Base):
    def forward(self,x):
        return self


class RetMod(Base):
    def forward(self,x):
        return self.l[0]


class ModInListVar(Base):
    def forward(self,x):
        ms = [self.l[0], self.l[1]]
        return x


class ModCond(Base):
    def forward(self,x):
        m = self.l[0] if x.sum()>0 else self.l[1]
        return m(x)


class SameModCond(Base):
    arguments = (True,)
    def forward(self,x, b: bool):
        m = self.l[0]
        return m(x)


class WithNograd(Base):
    def forward(self,x):
        with torch.no_grad(): y = self.l[0](x)
        return y


class Fstring(Base):
    def forward(self,x):
        return f'{self.training} {len(self.l)}'


class SuperMethod(Base):
    def forward(self,x):
        return super(SuperMethod, self).forward(x)


class Static(Base):
    @staticmethod
    def s(x: int): return x+1
    def forward(self,x):
        return self.s(3)


class Classmethod(Base):
    @classmethod
    def s(cls, x: int): return x+1
    def forward(self,x):
        return self.s(3)


class Property(Base):
    @property
    def pp(self): return self.bb.size(0)
    def forward(self,x):
        return self.pp


class PropBad(Base):
    @property
    def pp(self): return zork
    def forward(self,x):
        return x


class ExportBad(Base):
    @torch.jit.export
    def pp(self): return zork
    def forward(self,x):
        return x


class ExportTwo(Base):
    @torch.jit.export
    def pp(self, x: int): return x+1
    def forward(self,x):
        return self.pp(3)


class Private(Base):
    def __g(self, x): return x+1
    def forward(self,x):
        return self.__g(x)


class DunderCall(Base):
    def forward(self,x):
        return self.q.__call__(x)


class ForwardCall(Base):
    def forward(self,x):
        return self.q.forward(x)


class LenSlice(Base):
    def forward(self,x):
        return len(self.l[1:])


class ContainsNot(Base):
    def forward(self,x):
        if 'z' not in self.d: return x
        return x+1


class ItemUpdate(Base):
    def forward(self,x):
        self.d['a'] = self.d['b']
        return x


class Append(Base):
    def forward(self,x):
        self.l.append(self.l[0])
        return x
