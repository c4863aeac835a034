"""The decomposition (decompose_nn.py) of einsum: operands are multiplied two at a time, from the
left, each pair as one product of batches of matrices (torch.bmm).

A label is the number of its letter; those of `...` are 1000 and more, counted from the right."""

helper("""
def einsum_labels(term: str, n: int) -> List[int]:
    letters = len(term.replace(".", ""))
    out: List[int] = []
    i = 0
    while i < len(term):
        if term[i] == ".":
            for k in range(n - letters):
                out.append(1000 + n - letters - 1 - k)
            i = i + 3
        else:
            out.append(ord(term[i]))
            i = i + 1
    return out
""")
helper("""
def einsum_result(left: str, labels: List[List[int]]) -> List[int]:
    out: List[int] = []
    counts: List[int] = []
    for one in labels:
        for a in one:
            counts.append(a)
    for k in range(200):
        if counts.count(1199 - k) > 0:
            out.append(1199 - k)
    for a in range(128):
        if counts.count(a) == 1:
            out.append(a)
    return out
""")
# The tensor, and its labels behind, without labels that stand twice: their diagonal, last.
helper("""
def einsum_diagonals(t: Tensor, labels: List[int]) -> Tuple[Tensor, List[int]]:
    out = t
    left = [a for a in labels]
    i = 0
    while i < len(left):
        a = left[i]
        if left.count(a) > 1:
            at = i + 1
            while left[at] != a:
                at = at + 1
            out = torch.diagonal(out, 0, i, at)
            kept: List[int] = []
            for k in range(len(left)):
                if k != i and k != at:
                    kept.append(left[k])
            kept.append(a)
            left = kept
        else:
            i = i + 1
    return out, left
""")
# Sums what nobody else has, and turns the tensor to the order of `wanted`, a size of 1 for what it
# lacks.
helper("""
def einsum_turned(t: Tensor, labels: List[int], wanted: List[int]) -> Tensor:
    dims: List[int] = []
    left: List[int] = []
    for i in range(len(labels)):
        if labels[i] in wanted:
            left.append(labels[i])
        else:
            dims.append(i)
    out = torch.sum(t, dims) if len(dims) > 0 else t
    order: List[int] = []
    n = len(left)
    for a in wanted:
        if a in left:
            order.append(left.index(a))
        else:
            out = out.unsqueeze(-1)
            order.append(n)
            n = n + 1
    return out.permute(order)
""")
helper("""
def einsum_pair(x: Tensor, a: List[int], y: Tensor, b: List[int],
                kept: List[int]) -> Tuple[Tensor, List[int]]:
    both: List[int] = []
    summed: List[int] = []
    mine: List[int] = []
    others: List[int] = []
    for k in a:
        if k in b:
            if k in kept:
                both.append(k)
            else:
                summed.append(k)
        elif k in kept:
            mine.append(k)
    for k in b:
        if k in kept and not (k in a):
            others.append(k)
    p = einsum_turned(x, a, both + mine + summed)
    q = einsum_turned(y, b, both + summed + others)
    m, n, s = len(both), len(mine), len(summed)
    batch = torch.broadcast_shapes(p.size()[:m], q.size()[:m])
    inner = torch.broadcast_shapes(p.size()[m + n:], q.size()[m:m + s])
    rows, columns = p.size()[m:m + n], q.size()[m + s:]
    count, height, width, depth = 1, 1, 1, 1
    for k in batch:
        count = count * k
    for k in rows:
        height = height * k
    for k in columns:
        width = width * k
    for k in inner:
        depth = depth * k
    left = torch.reshape(p.expand(batch + rows + inner), [count, height, depth])
    right = torch.reshape(q.expand(batch + inner + columns), [count, depth, width])
    return torch.bmm(left, right).view(batch + rows + columns), both + mine + others
""")
decompose("einsum", """
def core(equation: str, tensors: List[Tensor], path: Optional[List[int]]) -> Tensor:
    text = equation.replace(" ", "")
    sides = text.split("->")
    terms = sides[0].split(",")
    labels: List[List[int]] = []
    for i in range(len(tensors)):
        labels.append(einsum_labels(terms[i], tensors[i].dim()))
    if len(sides) > 1:
        most = 0
        for one in labels:
            for a in one:
                if a >= 1000:
                    most = max(most, a - 999)
        wanted = einsum_labels(sides[1], len(sides[1].replace(".", "")) + most)
    else:
        wanted = einsum_result(sides[0], labels)
    out, have = einsum_diagonals(tensors[0], labels[0])
    for i in range(1, len(tensors)):
        kept = [a for a in wanted]
        for k in range(i + 1, len(tensors)):
            for a in labels[k]:
                kept.append(a)
        other, others = einsum_diagonals(tensors[i], labels[i])
        out, have = einsum_pair(out, have, other, others, kept)
    return einsum_turned(out, have, wanted)
""")
