"""Programs over texts, and searches."""

import math
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from script_programs import calls
from torch import Tensor, nn

# -- Texts ------------------------------------------------------------------------------------------------


@calls("the cat sat on the mat", "", "a", "hello   world\tfoo\nbar")
def tokenize(text: str):
    words: List[str] = []
    word = ""
    for ch in text:
        if ch.isspace():
            if len(word) > 0:
                words.append(word)
                word = ""
        else:
            word += ch
    if len(word) > 0:
        words.append(word)
    counts: Dict[str, int] = {}
    for w in words:
        if w in counts:
            counts[w] += 1
        else:
            counts[w] = 1
    return words, counts, sorted(counts.keys())


class Vocabulary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.index: Dict[str, int] = {"<unk>": 0, "the": 1, "cat": 2}
        self.words: List[str] = ["<unk>", "the", "cat"]
        self.emb = nn.Embedding(3, 4)

    @torch.jit.export
    def __len__(self) -> int:
        return len(self.words)

    @torch.jit.export
    def __contains__(self, word: str) -> bool:
        return word in self.index

    def encode(self, text: str, max_len: Optional[int] = None) -> List[int]:
        ids = [self.index[w] if w in self.index else 0 for w in text.lower().split(" ")]
        if max_len is not None:
            ids = ids[:max_len]
            while len(ids) < max_len:
                ids.append(0)
        return ids

    def forward(self, text: str, n: int):
        ids = self.encode(text, n)
        size = len(self)
        known = "cat" in self
        return self.emb(torch.tensor(ids)), ids, size, known, " ".join([self.words[i] for i in ids])


calls(("The cat sat", 4), ("cat", 1), ("", 2))(Vocabulary)


@calls("hello", "Hello World 123", "aXbXc", "")
def text_methods(s: str):
    return (
        s.upper(),
        s.lower(),
        s.title(),
        s.swapcase(),
        s.capitalize(),
        s.strip("h"),
        s.lstrip(),
        s.rstrip("o"),
        s.find("l"),
        s.rfind("l"),
        s.count("l"),
        s.replace("l", "L"),
        s.startswith("he"),
        s.endswith("o"),
        s.isdigit(),
        s.isalpha(),
        s.isalnum(),
        s.islower(),
        s.isupper(),
        s.center(11, "*"),
        s.ljust(8) + "|",
        s.rjust(8, "-"),
        s.zfill(7),
        s.split("X"),
        s.partition("o"),
        s.rpartition("o"),
        s.splitlines(),
        s[1:3],
        s[::-1],
        s[-2:],
        len(s),
        "-".join(list(s)),
        s + s,
        s.isspace(),
        s.istitle(),
        s.isidentifier(),
        s.expandtabs(4),
        s.rsplit("o", 1),
        s == "hello",
        s < "i",
        "ell" in s,
    )


@calls((3, 2.5, "x", True), (-7, 1e10, "", False), (0, float("inf"), "q", True))
def formatting(i: int, f: float, s: str, b: bool):
    a = f"{i} and {f} {s} {b}"
    c = "{} / {} / {}".format(i, f, s)
    d = "%d|%s|%f|%5.2f|%x|%e" % (i if i >= 0 else 0, s, f if f < 1e9 else 1.0, 2.5, 255, 12345.678)
    e = str(i) + str(f) + str(b) + str([i, i]) + str((i, s)) + str({s: i})
    return (
        a,
        c,
        d,
        e,
        f"{[1, 2]} {(i, f)}",
        "{0}".format(i),
        hex(i),
        oct(i),
        bin(i),
        chr(65 + abs(i) % 20),
        ord("a"),
    )


@calls("12", "-5", "x1", "3.5", "")
def parse_number(s: str):
    return int(s) + 1


@calls("2.5", "1e3", "inf", "abc")
def parse_float(s: str):
    return float(s) * 2


@calls("(1+2)*3", "2*(3+4)*5", "1+", "7", "2*x")
def evaluate(text: str) -> int:
    """A tiny calculator with two stacks."""
    values: List[int] = []
    ops: List[str] = []
    i = 0
    while i < len(text):
        c = text[i]
        if c.isdigit():
            n = 0
            while i < len(text) and text[i].isdigit():
                n = n * 10 + int(text[i])
                i += 1
            values.append(n)
            continue
        elif c == "(":
            ops.append(c)
        elif c == ")":
            while ops[-1] != "(":
                op = ops.pop()
                b = values.pop()
                a = values.pop()
                values.append(a + b if op == "+" else a * b)
            ops.pop()
        elif c == "+" or c == "*":
            while len(ops) > 0 and (ops[-1] == "*" or (ops[-1] == "+" and c == "+")):
                op = ops.pop()
                b = values.pop()
                a = values.pop()
                values.append(a + b if op == "+" else a * b)
            ops.append(c)
        else:
            raise ValueError("unexpected character " + c)
        i += 1
    while len(ops) > 0:
        op = ops.pop()
        b = values.pop()
        a = values.pop()
        values.append(a + b if op == "+" else a * b)
    return values[0]


@calls(("kitten", "sitting"), ("", "abc"), ("same", "same"))
def edit_distance(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i in range(1, len(a) + 1):
        last = row[0]
        row[0] = i
        for j in range(1, len(b) + 1):
            kept = row[j]
            cost = 0 if a[i - 1] == b[j - 1] else 1
            row[j] = min(row[j] + 1, min(row[j - 1] + 1, last + cost))
            last = kept
    return row[len(b)]


@calls(("aab", 3), ("banana", 2))
def ngrams(text: str, n: int) -> Dict[str, List[int]]:
    places: Dict[str, List[int]] = {}
    for i in range(len(text) - n + 1):
        gram = text[i : i + n]
        if gram not in places:
            places[gram] = torch.jit.annotate(List[int], [])
        places[gram].append(i)
    return places


# -- Search -------------------------------------------------------------------------------------------------


class BeamSearch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(7, 5)
        self.rnn = nn.GRUCell(5, 6)
        self.out = nn.Linear(6, 7)
        self.eos = 0

    def forward(self, h: Tensor, width: int, steps: int):
        beams: List[Tuple[float, List[int], Tensor]] = [(0.0, [1], h)]
        done: List[Tuple[float, List[int]]] = []
        for _ in range(steps):
            found: List[Tuple[float, List[int], Tensor]] = []
            for score, tokens, state in beams:
                state = self.rnn(self.emb(torch.tensor([tokens[-1]])), state)
                logp = F.log_softmax(self.out(state), dim=-1)[0]
                best, ids = torch.topk(logp, width)
                for k in range(width):
                    token = int(ids[k].item())
                    total = score + float(best[k])
                    if token == self.eos:
                        done.append((total, tokens + [token]))
                    else:
                        found.append((total, tokens + [token], state))
            order: List[Tuple[float, int]] = [(-f[0], i) for i, f in enumerate(found)]
            order.sort()
            beams = [found[i] for q, i in order[:width]]
            if len(beams) == 0:
                break
        return [b[1] for b in beams], [d[1] for d in done], len(done)


calls((torch.zeros(1, 6), 3, 4), (torch.ones(1, 6), 1, 6))(BeamSearch)


@calls(
    (torch.tensor([[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]]), 0),
    (torch.full((4, 4), 2.0), 3),
)
def dijkstra(w: Tensor, start: int) -> List[float]:
    n = w.size(0)
    dist = [math.inf] * n
    seen = [False] * n
    dist[start] = 0.0
    for _ in range(n):
        u = -1
        for i in range(n):
            if not seen[i] and (u < 0 or dist[i] < dist[u]):
                u = i
        seen[u] = True
        for v in range(n):
            d = dist[u] + w[u, v].item()
            if d < dist[v]:
                dist[v] = d
    return dist


@calls(10, 1, 0, 30)
def sieve(n: int) -> List[int]:
    mask = [True] * (n + 1)
    found: List[int] = []
    for i in range(2, n + 1):
        if mask[i]:
            found.append(i)
            for j in range(i * i, n + 1, i):
                mask[j] = False
    return found


@calls(8, 5, 1)
def queens(n: int) -> int:
    """Backtracking without recursion."""
    cols = [-1] * n
    row = 0
    count = 0
    while row >= 0:
        cols[row] += 1
        while cols[row] < n:
            clash = False
            for r in range(row):
                if cols[r] == cols[row] or abs(cols[r] - cols[row]) == row - r:
                    clash = True
                    break
            if not clash:
                break
            cols[row] += 1
        if cols[row] >= n:
            cols[row] = -1
            row -= 1
        elif row == n - 1:
            count += 1
        else:
            row += 1
    return count


@calls(27, 1, 97)
def collatz(n: int) -> Tuple[int, int]:
    steps, top = 0, n
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        top = max(top, n)
        steps += 1
    return steps, top
