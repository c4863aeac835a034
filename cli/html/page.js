"use strict";
// The page of `rushlight show --html`: draws what the archive's program is.  Parts, in order: data, folding and naming of
// nodes, the tree of boxes that is on view, its layout, drawing, moving about, details and source, tables.  Text from the
// archive reaches the document through textContent and attributes only.

const $ = (id) => document.getElementById(id);
const root = document.documentElement;
root.dataset.errors = "0";
addEventListener("error", () => { root.dataset.errors = String(+root.dataset.errors + 1); });

const D = JSON.parse($("data").textContent);
const P = D.program;
const SVG = "http://www.w3.org/2000/svg";

function el(tag, props, ...inside) {
  const e = document.createElement(tag);
  for (const k in props || {}) {
    if (k === "class") e.className = props[k];
    else if (k.startsWith("on")) e.addEventListener(k.slice(2), props[k]);
    else e.setAttribute(k, props[k]);
  }
  e.append(...inside.filter((x) => x !== null && x !== undefined));
  return e;
}
function svg(tag, props, text) {
  const e = document.createElementNS(SVG, tag);
  for (const k in props) e.setAttribute(k, props[k]);
  if (text !== undefined) e.textContent = text;
  return e;
}
const count = (n) => n.toLocaleString("en");
const few = (x) => (x === null || x === undefined ? "" : String(+(+x).toPrecision(4)));
function amount(n, units, step) {
  let u = 0;
  for (; n >= step && u < units.length - 1; u++) n /= step;
  return (u ? n.toPrecision(3) : n) + " " + units[u];
}
const bytes = (n) => amount(n, ["B", "kB", "MB", "GB", "TB"], 1000);
function time(s) {
  if (s < 1e-6) return (s * 1e9).toFixed(0) + " ns";
  if (s < 1e-3) return (s * 1e6).toPrecision(3) + " µs";
  return s < 1 ? (s * 1e3).toPrecision(3) + " ms" : s.toPrecision(3) + " s";
}
const percent = (x) => (100 * x).toFixed(1) + " %";
const shape = (s) => (s.length ? s.join("×") : "scalar");

// -- Data: what functions define ------------------------------------------------------------------------

const weights = new Map(D.weights.map((w) => [w.name, w]));
const ready = new Map();

// defs[value]: the node that gives it, or null for an argument.  Nodes get their number and block.
function prepare(fi) {
  if (ready.has(fi)) return ready.get(fi);
  const f = P.functions[fi];
  const loops = new Map();
  const F = { fi, f, loops, defs: new Array(f.values.length).fill(null), nodes: [] };
  const walk = (b, owner) => {
    b.owner = owner;
    for (const n of b.nodes) {
      n.seq = F.nodes.length;
      n.block = b;
      F.nodes.push(n);
      for (const v of n.out) F.defs[v] = n;
      for (const inner of n.blocks || []) walk(inner, n);
      if (n.kind === "prim::Loop") loops.set(n.blocks[0].in[0], "i");
    }
  };
  walk(f, null);
  ready.set(fi, F);
  return F;
}

const nameOf = (n) => (n.op === undefined ? n.kind : P.ops[n.op].name);
const short = (name) => name.replace(/^\w+::/, "");

// Constants, weights and lists of them are told in what uses them, and not drawn.
function isFolded(F, n) {
  if (n.folded === undefined) {
    const k = n.kind;
    n.folded = k === "prim::Constant" || k === "prim::GetAttr" || k === "prim::Uninitialized" ||
      ((k === "prim::ListConstruct" || k === "prim::TupleConstruct" || k === "prim::DictConstruct") &&
        n.in.every((v) => F.defs[v] && isFolded(F, F.defs[v])));
  }
  return n.folded;
}

// Lists of numbers, mostly sizes, are told where they are used too; what they are made of leads there.
function isThrough(F, n) {
  return n.kind === "prim::ListConstruct" && /^(int|float|bool)\[\]$/.test(F.f.values[n.out[0]][1]);
}

function className(fi) {
  const parts = P.functions[fi].name.split(".");
  const method = parts.pop();
  const owner = parts.pop() || "";
  const mangled = owner.startsWith("___torch_mangle") || owner === "__torch__" || owner === "functional" || owner === "";
  if (method === "forward" || method === "__call__") return mangled ? method : owner;
  return mangled ? method : owner + "." + method;
}

// What the caller gives for an argument of the instance's function, or null.
function argumentOf(I, v) {
  if (!I.from || I.F.defs[v]) return null;
  const i = I.F.f.in.indexOf(v);
  return i >= 0 && I.from.n.in[i] !== undefined ? { I: I.from.I, v: I.from.n.in[i] } : null;
}

// The module path of a value in an instance: "layer1.0.conv1", "" for the whole, or null.
function pathOf(I, v, depth) {
  if (v === I.F.f.self) return I.path;
  const given = argumentOf(I, v);
  if (given) return pathOf(given.I, given.v, (depth || 0) + 1);
  const n = I.F.defs[v];
  if (!n || n.kind !== "prim::GetAttr" || (depth || 0) > 60) return null;
  const p = pathOf(I, n.in[0], (depth || 0) + 1);
  return p === null ? null : p ? p + "." + n.attrs.name : n.attrs.name;
}

// What a folded value is, as text.
function textOf(I, v) {
  const given = argumentOf(I, v);
  if (given) return textOf(given.I, given.v);
  const n = I.F.defs[v];
  if (!n || !(isFolded(I.F, n) || isThrough(I.F, n))) return null;
  if (n.kind === "prim::Constant") return n.value === undefined ? "None" : n.value;
  if (n.kind === "prim::GetAttr") {
    const p = pathOf(I, v);
    return p === null ? "." + n.attrs.name : p;
  }
  const inner = n.in.map((x) => textOf(I, x) ?? valueName(I.F, x)).join(", ");
  return n.kind === "prim::ListConstruct" ? "[" + inner + "]" : n.kind === "prim::TupleConstruct" ? "(" + inner + ")" : "{" + inner + "}";
}
function weightOf(I, v) {
  const p = pathOf(I, v);
  return p === null ? null : weights.get(p) || null;
}

const KINDS = [
  ["matmul", /conv|linear|matmul|^mm$|^bmm$|addmm|baddbmm|einsum|attention|embedding|lstm|gru|rnn|bilinear$|^dot$|^mv$/],
  ["norm", /norm|softmax|dropout/],
  ["act", /relu|gelu|silu|sigmoid|tanh|elu$|selu|mish|hardswish|hardtanh|softplus|clamp|leaky/],
  ["pool", /pool|interpolate|upsample|^(sum|mean|max|min|amax|amin|prod|var|std|argmax|argmin|any|all|topk|sort|cumsum|logsumexp)/],
  ["shape", /view|reshape|flatten|permute|transpose|^t$|squeeze|expand|slice|select|split|chunk|unbind|cat$|stack|contiguous|size|shape|^dim$|^len$|pad|index|gather|narrow|repeat|roll|flip|clone|detach|^to$|Construct|Unpack|getitem|TupleIndex/],
];
function category(n) {
  if (n.blocks || /prim::(If|Loop|With|Raise|Print|fork|Enter|Exit|SetAttr|Interface|is|unchecked)/.test(n.kind || "")) return "ctrl";
  if (n.call !== undefined) return "call";
  const s = short(nameOf(n)).replace(/_$/, "");
  for (const [c, r] of KINDS) if (r.test(s)) return c;
  return n.op === undefined ? "other" : "point";
}

// -- Measured: rows of the profile by where they stand ----------------------------------------------------

const measured = new Map();
const M = D.profile;
if (M) {
  M.methods.forEach((m, i) => { m.index = i; measured.set("m" + m.parent + "/" + m.node + "/" + m.name, m); });
  for (const n of M.nodes) measured.set("n" + n.parent + "/" + n.node, n);
}
const shareOf = (row) => (row && M ? row.total / M.seconds : 0);

// -- The tree on view --------------------------------------------------------------------------------------

// An instance is a function's body at one place: I = {F, path, key, row}.  Items are what is drawn in a block; those with
// `blocks` can be opened.
const opened = new Map();
let whole = null;
let seqOfItems = 0;

function bodyOf(I, n) {
  const callee = prepare(n.call);
  let path = I.path;
  if (callee.f.self !== null && n.in.length) path = pathOf(I, n.in[0]);
  const at = I.row === undefined ? null : "m" + I.row + "/" + n.id + "/" + callee.f.name;
  const row = at && measured.get(at);
  return { F: callee, path: path === null ? I.path + ".?" : path, key: I.key + "/" + n.seq, row: row ? row.index : undefined,
    measured: row || null, depth: I.depth + 1, from: { I, n } };
}

// A call whose body is one operator is drawn as that operator: Conv2d.forward -> conv2d.
function throughWrappers(I, n) {
  for (let i = 0; n.call !== undefined && i < 8; i++) {
    const B = bodyOf(I, n);
    const inner = B.F.f.nodes.filter((x) => !isFolded(B.F, x));
    if (inner.length !== 1 || inner[0].blocks || (inner[0].op === undefined && inner[0].call === undefined)) return null;
    I = B;
    n = inner[0];
  }
  return n.call === undefined ? { I, n } : null;
}

function detailText(I, n) {
  const parts = [];
  for (const v of n.in) {
    const w = weightOf(I, v);
    const t = textOf(I, v);
    if (w && w.shape.length > 1) parts.push(shape(w.shape));
    else if (t && /^\w+\[\d+(, \d+)+\]$/.test(t)) parts.push(t.replace(/^\w+\[|\]$/g, "").replace(/, /g, "×"));
  }
  return parts.join(", ");
}
const shapesText = (t) => t.replace(/\w+\[([^\]]*)\]/g, (_, d) => d.replace(/, /g, "×") || "scalar");

function opItem(I, n, outer) {
  const it = { kind: "op", I, n, key: (outer ? outer.I.key + "/" + outer.n.seq : I.key + "/" + n.seq), title: short(nameOf(n)), cat: category(n) };
  it.node = outer ? outer.n : n;
  it.at = outer ? outer.I : I;
  const row = I.row === undefined ? null : measured.get("n" + I.row + "/" + n.id);
  it.measured = row || null;
  const path = outer && I.path ? I.path.split(".").slice(-2).join(".") : "";
  it.sub = [path, row && row.inputs ? shapesText(row.inputs) : detailText(I, n)].filter(Boolean).join("  ");
  it.missing = n.op !== undefined && !P.ops[n.op].runs;
  return it;
}

function itemOf(I, n) {
  if (n.call !== undefined) {
    const through = throughWrappers(I, n);
    if (through) return opItem(through.I, through.n, { I, n });
    const B = bodyOf(I, n);
    const it = { kind: "call", I, at: I, n, node: n, body: B, key: B.key, title: className(n.call), cat: "call", measured: B.measured };
    const w = B.path && weights.get(B.path + ".weight");
    it.sub = [B.path !== I.path && B.path ? B.path.split(".").slice(-2).join(".") : "", w ? shape(w.shape) : ""].filter(Boolean).join("  ");
    it.canOpen = I.depth < 40;
    return it;
  }
  if (n.blocks) {
    const it = { kind: "ctrl", I, at: I, n, node: n, key: I.key + "/" + n.seq, title: short(nameOf(n)), cat: "ctrl", canOpen: true, sub: "" };
    const cond = n.kind === "prim::If" && n.in[0] !== undefined ? I.F.defs[n.in[0]] : null;
    if (cond && !isFolded(I.F, cond)) it.sub = short(nameOf(cond));
    if (n.kind === "prim::Loop") it.sub = textOf(I, n.in[0]) === "9223372036854775807" ? "while" : "for";
    return it;
  }
  return opItem(I, n, null);
}

// Values that a node and its blocks take from outside.
function freeValues(n) {
  if (n.free) return n.free;
  const free = new Set(n.in);
  for (const b of n.blocks || []) {
    const own = new Set(b.in);
    const used = new Set(b.out);
    for (const x of b.nodes) {
      for (const v of freeValues(x)) used.add(v);
      for (const v of x.out) own.add(v);
    }
    for (const v of used) if (!own.has(v)) free.add(v);
  }
  n.free = [...free];
  return n.free;
}

const valueName = (F, v) => {
  const name = F.f.values[v][0];
  if (!/^\d+$/.test(name)) return name;
  const loop = F.loops && F.loops.get(v);
  return loop || "%" + name;
};

function buildBlock(I, b, isBody) {
  const items = [];
  const by = new Map();
  const users = new Set();
  for (const n of b.nodes) for (const v of freeValues(n)) users.add(v);
  for (const v of b.out) users.add(v);
  for (const v of b.in) {
    if (v === I.F.f.self || !users.has(v)) continue;
    const it = { kind: "io", cat: "io", I, at: I, value: v, key: I.key + "/v" + v, title: valueName(I.F, v), sub: "", ins: [] };
    by.set(v, it);
    items.push(it);
  }
  for (const n of b.nodes) {
    if (isFolded(I.F, n) || isThrough(I.F, n)) continue;
    const it = itemOf(I, n);
    it.ins = freeValues(n);
    items.push(it);
    for (const v of n.out) by.set(v, it);
    if (it.canOpen && opened.get(it.key)) {
      it.isOpen = true;
      it.blocks = it.kind === "call" ? [buildBlock(it.body, it.body.F.f, true)] : n.blocks.map((x) => buildBlock(I, x, false));
    }
  }
  const told = b.out.filter((v, i) => (n => n || isBody)(by.get(v)) && !(i === 0 && b.owner && b.owner.kind === "prim::Loop"));
  if (told.length && (isBody || !b.nodes.every((n) => isFolded(I.F, n)))) {
    const end = { kind: "io", cat: "io", I, at: I, key: I.key + "/end" + (b.owner ? b.owner.seq + "." + b.owner.blocks.indexOf(b) : ""),
      title: isBody ? "return" : told.map((v) => valueName(I.F, v)).join(", "), sub: "", ins: told, isEnd: true };
    items.push(end);
  }
  if (!items.length) {
    const text = b.out.map((v) => textOf(I, v) || valueName(I.F, v)).join(", ");
    items.push({ kind: "io", cat: "io", I, at: I, key: I.key + "/none" + (b.owner ? b.owner.seq + "." + b.owner.blocks.indexOf(b) : ""), title: text || "nothing", sub: "", ins: [] });
  }
  const edges = [];
  const seen = new Set();
  for (const it of items) {
    it.index = seqOfItems++;
    const from = (v, depth) => {
      const n = I.F.defs[v];
      return by.has(v) ? [by.get(v)] : n && depth < 9 && isThrough(I.F, n) ? n.in.flatMap((x) => from(x, depth + 1)) : [];
    };
    for (const v of it.ins) for (const source of from(v, 0)) {
      if (source === it || seen.has(source.index + ">" + it.index)) continue;
      seen.add(source.index + ">" + it.index);
      edges.push({ from: source, to: it });
    }
  }
  return { items, edges };
}

// -- Layout: boxes in layers, inside out -------------------------------------------------------------------

const pen = document.createElement("canvas").getContext("2d");
const family = getComputedStyle(document.body).fontFamily;
const widths = new Map();
function textWidth(text, font) {
  const key = font + text;
  let w = widths.get(key);
  if (w === undefined) {
    pen.font = font + " " + family;
    w = pen.measureText(text).width;
    widths.set(key, w);
  }
  return w;
}
const TITLE = "600 13px";
const SUB = "11px";
const MOST_WIDTH = 250;
function cut(text, font, room) {
  if (textWidth(text, font) <= room) return text;
  let lo = 0;
  let hi = text.length;
  while (lo < hi) {
    const mid = (lo + hi + 1) >> 1;
    if (textWidth(text.slice(0, mid) + "…", font) <= room) lo = mid;
    else hi = mid - 1;
  }
  return text.slice(0, lo) + "…";
}

const GAP_X = 22;
const GAP_Y = 34;
const PAD = 16;
const HEAD = 28;

function sizeItem(it) {
  if (it.isOpen) {
    let w = textWidth(it.title, TITLE) + (it.sub ? textWidth(it.sub, SUB) + 14 : 0) + 52;
    let x = PAD;
    let h = 0;
    it.roof = HEAD + (it.n.kind === "prim::If" ? 22 : 8);
    for (const b of it.blocks) {
      layoutBlock(b);
      b.x = x;
      b.y = it.roof;
      x += b.w + 2 * PAD;
      h = Math.max(h, b.h);
    }
    x -= PAD;
    if (x < w) {
      const shift = (w - x) / 2;
      for (const b of it.blocks) b.x += shift;
    } else {
      w = x;
    }
    it.w = w;
    it.h = h + it.roof + PAD;
    return;
  }
  const tw = textWidth(it.title, it.kind === "io" ? "500 13px" : TITLE) + (it.canOpen ? 18 : 0);
  const sw = it.sub ? textWidth(it.sub, SUB) : 0;
  it.w = Math.ceil(Math.min(MOST_WIDTH, Math.max(it.kind === "io" ? 40 : 76, Math.max(tw, sw) + 30)));
  it.h = it.kind === "io" ? 26 : (it.sub ? 44 : 30) + (it.measured ? 7 : 0);
}

// Centres nearest to the wanted ones that keep the order and the gaps (isotonic regression).
function place(row, wanted) {
  const offset = [];
  let sum = 0;
  row.forEach((c, i) => {
    if (i) sum += (row[i - 1].w + c.w) / 2 + GAP_X;
    offset.push(sum);
  });
  const blocks = [];
  row.forEach((c, i) => {
    const weight = c.dummy ? 4 : 1;
    blocks.push({ sum: (wanted[i] - offset[i]) * weight, weight, n: 1 });
    while (blocks.length > 1) {
      const b = blocks[blocks.length - 1];
      const a = blocks[blocks.length - 2];
      if (a.sum / a.weight <= b.sum / b.weight) break;
      a.sum += b.sum;
      a.weight += b.weight;
      a.n += b.n;
      blocks.pop();
    }
  });
  let i = 0;
  for (const b of blocks) for (let k = 0; k < b.n; k++, i++) row[i].cx = b.sum / b.weight + offset[i];
}

function layersOf(items, edges) {
  for (const it of items) Object.assign(it, { layer: 0, up: [], down: [] });
  for (const e of edges) { e.from.down.push(e.to); e.to.up.push(e.from); }
  for (const it of items) for (const u of it.up) it.layer = Math.max(it.layer, u.layer + 1);
  // What nothing leads to stands just above its first use.
  for (let i = items.length - 1; i >= 0; i--) {
    const it = items[i];
    if (!it.up.length && it.down.length && !(it.kind === "io")) it.layer = Math.min(...it.down.map((d) => d.layer)) - 1;
  }
  const least = Math.min(...items.map((it) => it.layer));
  const ends = Math.max(...items.map((it) => it.layer));
  const rows = [];
  for (const it of items) {
    it.layer -= least;
    if (it.isEnd) it.layer = ends - least;
    (rows[it.layer] = rows[it.layer] || []).push(it);
  }
  for (let i = 0; i < rows.length; i++) rows[i] = rows[i] || [];
  return rows;
}

function layoutBlock(b) {
  for (const it of b.items) sizeItem(it);
  const rows = layersOf(b.items, b.edges);
  let spans = 0;
  for (const e of b.edges) spans += e.to.layer - e.from.layer - 1;
  const links = [];
  for (const e of b.edges) {
    e.via = [];
    let last = e.from;
    for (let l = e.from.layer + 1; l < e.to.layer && spans < 30000; l++) {
      const d = { dummy: true, w: 8, h: 0, layer: l };
      rows[l].push(d);
      e.via.push(d);
      links.push([last, d]);
      last = d;
    }
    links.push([last, e.to]);
  }
  for (const row of rows) for (const c of row) { c.ups = []; c.downs = []; }
  for (const [a, z] of links) { a.downs.push(z); z.ups.push(a); }
  order(rows);
  for (const row of rows) place(row, row.map(() => 0));
  const mean = (list, c) => (list.length ? list.reduce((s, x) => s + x.cx, 0) / list.length : c.cx);
  for (let sweep = 0; sweep < 8; sweep++) {
    if (sweep % 2) for (let i = rows.length - 2; i >= 0; i--) place(rows[i], rows[i].map((c) => mean(c.downs.length ? c.downs : c.ups, c)));
    else for (let i = 1; i < rows.length; i++) place(rows[i], rows[i].map((c) => mean(c.ups.length ? c.ups : c.downs, c)));
  }
  let y = 0;
  let left = Infinity;
  let right = -Infinity;
  for (const row of rows) {
    const h = Math.max(0, ...row.map((c) => c.h));
    for (const c of row) {
      c.y = c.dummy ? y : y + (h - c.h) / 2;
      c.bottom = c.dummy ? y + h : c.y + c.h;
      c.x = c.cx - c.w / 2;
      left = Math.min(left, c.x);
      right = Math.max(right, c.x + c.w);
    }
    y += h + GAP_Y;
  }
  for (const row of rows) for (const c of row) { c.x -= left; c.cx -= left; }
  b.w = Math.max(0, right - left);
  b.h = Math.max(0, y - GAP_Y);
}

function order(rows) {
  rows.forEach((row) => row.forEach((c, i) => { c.pos = i; }));
  const middle = (list) => {
    if (!list.length) return -1;
    const p = list.map((x) => x.pos).sort((x, z) => x - z);
    const m = p.length >> 1;
    return p.length % 2 ? p[m] : (p[m - 1] + p[m]) / 2;
  };
  const sort = (row, side) => {
    const keys = new Map(row.map((c) => { const m = middle(c[side]); return [c, m < 0 ? c.pos : m]; }));
    row.sort((x, z) => keys.get(x) - keys.get(z) || x.pos - z.pos);
    row.forEach((c, i) => { c.pos = i; });
  };
  for (let k = 0; k < 6; k++) {
    for (let i = 1; i < rows.length; i++) sort(rows[i], "ups");
    for (let i = rows.length - 2; i >= 0; i--) sort(rows[i], "downs");
  }
}

// -- The scene: everything with its place on the plane ------------------------------------------------------

let scene = { nodes: [], boxes: [], edges: [], by: new Map(), w: 0, h: 0 };

function gather(b, x, y, level, parent) {
  for (const it of b.items) {
    it.ax = x + it.x;
    it.ay = y + it.y;
    it.level = level;
    it.parent = parent;
    scene.by.set(it.key, it);
    (it.isOpen ? scene.boxes : scene.nodes).push(it);
    if (it.isOpen) for (const inner of it.blocks) gather(inner, it.ax + inner.x, it.ay + inner.y, level + 1, it);
  }
  for (const e of b.edges) {
    const pts = [[x + e.from.cx, y + e.from.bottom]];
    for (const d of e.via) pts.push([x + d.cx, y + d.y], [x + d.cx, y + d.bottom]);
    pts.push([x + e.to.cx, y + e.to.y]);
    let path = "M" + pts[0].map(round);
    let [x0, x1, y0, y1] = [pts[0][0], pts[0][0], pts[0][1], pts[0][1]];
    for (let i = 1; i < pts.length; i++) {
      const [ax, ay] = pts[i - 1];
      const [bx, by] = pts[i];
      const mid = (ay + by) / 2;
      path += i % 2 ? "C" + [ax, mid, bx, mid, bx, by].map(round) : "L" + [bx, by].map(round);
      x0 = Math.min(x0, bx); x1 = Math.max(x1, bx); y0 = Math.min(y0, by); y1 = Math.max(y1, by);
    }
    scene.edges.push({ e, path, x0, x1, y0, y1, key: e.from.key + ">" + e.to.key });
  }
}
const round = (n) => Math.round(n * 10) / 10;

let method = null;
function start() {
  const F = prepare(method.function);
  const name = F.f.name;
  const row = M && M.methods.find((m) => m.parent === null && m.name === name);
  return { F, path: "", key: "r", row: row ? row.index : undefined, depth: 0, measured: row || null };
}

function rebuild() {
  scene = { nodes: [], boxes: [], edges: [], by: new Map(), w: 0, h: 0 };
  seqOfItems = 0;
  const I = start();
  whole = { I, block: buildBlock(I, I.F.f, true) };
  layoutBlock(whole.block);
  scene.w = whole.block.w;
  scene.h = whole.block.h;
  gather(whole.block, 0, 0, 0, null);
  for (const layer of ["boxes", "edges", "nodes"]) $(layer).replaceChildren();
  drawn.clear();
  drawMap();
  root.dataset.nodes = String(scene.nodes.length);
  root.dataset.boxes = String(scene.boxes.length);
  root.dataset.edges = String(scene.edges.length);
  if (picked && !scene.by.has(picked)) picked = null;
  refresh();
}

// Opens boxes from the outside in, while the number of nodes stays under `most`: control flow, and modules made of modules.
function openSome(most, all) {
  let n = 0;
  let level = [[start(), null]];
  const bodies = (I, b) => b.nodes.filter((x) => !isFolded(I.F, x) && !isThrough(I.F, x));
  n = bodies(level[0][0], level[0][0].F.f).length;
  while (level.length) {
    const next = [];
    for (const [I, block] of level) {
      for (const x of bodies(I, block || I.F.f)) {
        const it = itemOf(I, x);
        if (!it.canOpen) continue;
        const inside = it.kind === "call" ? [[it.body, null]] : x.blocks.map((b) => [I, b]);
        const more = inside.reduce((s, [J, b]) => s + bodies(J, b || J.F.f).length, 0);
        const deep = it.kind !== "call" || it.body.F.nodes.some((y) => y.call !== undefined && y.in.length && pathOf(it.body, y.in[0]) && y.in[0] !== it.body.F.f.self);
        if ((!all && !deep) || n + more > most) continue;
        n += more;
        opened.set(it.key, true);
        next.push(...inside);
      }
    }
    level = next;
  }
}

// -- Drawing -------------------------------------------------------------------------------------------------

const canvas = $("canvas");
const world = $("world");
const drawn = new Map();
let view = { x: 0, y: 0, k: 1 };
let picked = null;
let asked = false;

function refresh() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

function nodeElement(it) {
  const g = svg("g", { class: "node c-" + it.cat + (it.kind === "io" ? " io" : "") + (it.missing ? " missing" : ""), "data-key": it.key,
    transform: `translate(${round(it.ax)} ${round(it.ay)})` });
  g.append(svg("rect", { class: "body", width: it.w, height: it.h, rx: 6 }));
  if (it.kind !== "io") g.append(svg("rect", { class: "side", width: 5, height: it.h, rx: 2.5 }));
  const room = it.w - 24 - (it.canOpen ? 18 : 0);
  const middle = it.kind === "io" ? it.w / 2 : 15;
  g.append(svg("text", { class: "title", x: middle, y: it.kind === "io" ? 17.5 : 19.5, "text-anchor": it.kind === "io" ? "middle" : "start" },
    cut(it.title, it.kind === "io" ? "500 13px" : TITLE, it.kind === "io" ? it.w - 12 : room)));
  if (it.sub) g.append(svg("text", { class: "sub", x: 15, y: 35 }, cut(it.sub, SUB, it.w - 24)));
  if (it.canOpen) g.append(svg("text", { class: "more", x: it.w - 18, y: 20 }, "+"));
  if (it.measured) {
    const wide = it.w - 30;
    g.append(svg("rect", { class: "heat-back", x: 15, y: it.h - 8, width: wide, height: 3, rx: 1.5 }));
    g.append(svg("rect", { class: "heat", x: 15, y: it.h - 8, width: Math.max(1, wide * Math.min(1, shareOf(it.measured))), height: 3, rx: 1.5 }));
  }
  return g;
}
function boxElement(it) {
  const g = svg("g", { class: "box c-" + it.cat + (it.level % 2 ? " even" : ""), "data-key": it.key, transform: `translate(${round(it.ax)} ${round(it.ay)})` });
  g.append(svg("rect", { class: "body", width: it.w, height: it.h, rx: 8 }), svg("rect", { class: "head", width: it.w, height: HEAD, rx: 8 }));
  g.append(svg("text", { class: "less", x: 11, y: 20 }, "−"), svg("text", { class: "title", x: 28, y: 19 }, it.title));
  const sub = [it.sub, it.measured ? time(it.measured.total / it.measured.calls) + ", " + percent(shareOf(it.measured)) : ""].filter(Boolean).join("   ");
  const at = 28 + textWidth(it.title, TITLE) + 12;
  if (sub) g.append(svg("text", { class: "sub", x: at, y: 19 }, cut(sub, SUB, it.w - at - 8)));
  if (it.n.kind === "prim::If") it.blocks.forEach((b, i) => g.append(svg("text", { class: "sub", x: b.x + b.w / 2, y: HEAD + 10, "text-anchor": "middle" }, i ? "else" : "then")));
  for (let i = 1; i < it.blocks.length; i++) {
    const x = (it.blocks[i - 1].x + it.blocks[i - 1].w + it.blocks[i].x) / 2;
    g.append(svg("line", { x1: x, x2: x, y1: HEAD + 4, y2: it.h - 6 }));
  }
  return g;
}

function draw() {
  const size = canvas.getBoundingClientRect();
  world.setAttribute("transform", `translate(${round(view.x)} ${round(view.y)}) scale(${view.k.toFixed(4)})`);
  canvas.classList.toggle("far", view.k < 0.3);
  const m = 120 / view.k;
  const x0 = -view.x / view.k - m;
  const y0 = -view.y / view.k - m;
  const x1 = (size.width - view.x) / view.k + m;
  const y1 = (size.height - view.y) / view.k + m;
  const wanted = new Set();
  const show = (kind, key, isIn, make) => {
    if (!isIn) return;
    const id = kind + key;
    wanted.add(id);
    if (drawn.has(id)) return;
    const e = make();
    drawn.set(id, e);
    $(kind).append(e);
  };
  const inside = (it) => it.ax < x1 && it.ax + it.w > x0 && it.ay < y1 && it.ay + it.h > y0;
  for (const it of scene.boxes) show("boxes", it.key, inside(it), () => boxElement(it));
  for (const it of scene.nodes) show("nodes", it.key, inside(it), () => nodeElement(it));
  for (const e of scene.edges) show("edges", e.key, e.x0 < x1 && e.x1 > x0 && e.y0 < y1 && e.y1 > y0, () => svg("path", { class: "edge", d: e.path, "data-key": e.key }));
  for (const [id, e] of drawn) if (!wanted.has(id)) { e.remove(); drawn.delete(id); }
  for (const e of $("edges").children) {
    const [a, z] = e.dataset.key.split(">");
    e.classList.toggle("near", picked !== null && (a === picked || z === picked));
  }
  for (const layer of ["boxes", "nodes"]) for (const e of $(layer).children) e.classList.toggle("picked", e.dataset.key === picked);
  $("zoom").textContent = Math.round(100 * view.k) + "%";
  const s = mapScale();
  for (const [k, v] of Object.entries({ x: (-view.x / view.k) * s.k + s.x, y: (-view.y / view.k) * s.k + s.y, width: (size.width / view.k) * s.k, height: (size.height / view.k) * s.k }))
    $("map-view").setAttribute(k, round(v));
  root.dataset.drawn = String($("nodes").children.length);
}

function mapScale() {
  const k = Math.min(122 / Math.max(1, scene.w), 122 / Math.max(1, scene.h));
  return { k, x: (130 - scene.w * k) / 2, y: (130 - scene.h * k) / 2 };
}
function drawMap() {
  const s = mapScale();
  $("map-nodes").setAttribute("d", scene.nodes.map((n) => `M${round(n.ax * s.k + s.x)} ${round(n.ay * s.k + s.y)}h${round(Math.max(1, n.w * s.k))}v${round(Math.max(1, n.h * s.k))}h${-round(Math.max(1, n.w * s.k))}z`).join(""));
}

// -- Moving about ----------------------------------------------------------------------------------------------

function zoomAt(x, y, by) {
  const k = Math.min(4, Math.max(0.005, view.k * by));
  view = { k, x: x - ((x - view.x) * k) / view.k, y: y - ((y - view.y) * k) / view.k };
  refresh();
}
function zoomMiddle(by) {
  const size = canvas.getBoundingClientRect();
  zoomAt(size.width / 2, size.height / 2, by);
}
function fit() {
  const size = canvas.getBoundingClientRect();
  const k = Math.min(1.25, (size.width - 40) / Math.max(1, scene.w), (size.height - 40) / Math.max(1, scene.h));
  view = { k, x: (size.width - scene.w * k) / 2, y: Math.max(20, (size.height - scene.h * k) / 2) };
  refresh();
}
// The first sight: the width, from the top, and not smaller than can be read.
function fitTop() {
  const size = canvas.getBoundingClientRect();
  const k = Math.max(0.45, Math.min(1, (size.width - 48) / Math.max(1, scene.w)));
  view = { k, x: (size.width - scene.w * k) / 2, y: scene.h * k < size.height - 48 ? (size.height - scene.h * k) / 2 : 24 };
  refresh();
}
function reveal(it) {
  const size = canvas.getBoundingClientRect();
  if (view.k < 0.5) view.k = 0.8;
  const x = it.ax * view.k + view.x;
  const y = it.ay * view.k + view.y;
  const w = it.w * view.k;
  const h = Math.min(it.h * view.k, 60);
  if (x < 20 || x + w > size.width - 20) view.x += size.width / 2 - (x + w / 2);
  if (y < 20 || y + h > size.height - 20) view.y += size.height / 2 - (y + h / 2);
  refresh();
}

function pick(key, move) {
  picked = key;
  const it = key === null ? null : scene.by.get(key);
  showDetails(it);
  if (it) {
    showSource(it);
    $("live").textContent = it.title + (it.sub ? ", " + it.sub : "");
    if (move) reveal(it);
  }
  refresh();
}

function toggle(it) {
  if (!it.canOpen) return;
  const before = [it.ax, it.ay];
  if (opened.get(it.key)) opened.delete(it.key);
  else opened.set(it.key, true);
  rebuild();
  const now = scene.by.get(it.key);
  if (now) {
    view.x += (before[0] - now.ax) * view.k;
    view.y += (before[1] - now.ay) * view.k;
  }
  pick(it.key, false);
}

function itemAt(target) {
  const g = target.closest("[data-key]");
  return g && g.parentNode.id !== "edges" ? scene.by.get(g.dataset.key) : null;
}

let drag = null;
canvas.addEventListener("pointerdown", (ev) => {
  if (ev.button !== 0 && ev.button !== 1) return;
  drag = { x: ev.clientX, y: ev.clientY, view: { ...view }, moved: false, target: ev.target };
  canvas.setPointerCapture(ev.pointerId);
});
canvas.addEventListener("pointermove", (ev) => {
  if (!drag) return;
  const dx = ev.clientX - drag.x;
  const dy = ev.clientY - drag.y;
  if (!drag.moved && Math.hypot(dx, dy) < 4) return;
  drag.moved = true;
  canvas.classList.add("drag");
  view.x = drag.view.x + dx;
  view.y = drag.view.y + dy;
  refresh();
});
canvas.addEventListener("pointerup", () => {
  if (!drag) return;
  const was = drag;
  drag = null;
  canvas.classList.remove("drag");
  if (was.moved) return;
  const it = itemAt(was.target);
  const mark = was.target.classList;
  if (it && it.canOpen && (it.isOpen ? mark.contains("head") : false) && it.key === picked) toggle(it);
  else pick(it && !(it.isOpen && mark.contains("body")) ? it.key : null, false);
});
canvas.addEventListener("pointercancel", () => { drag = null; canvas.classList.remove("drag"); });
canvas.addEventListener("dblclick", (ev) => {
  const it = picked !== null ? scene.by.get(picked) : null;
  if (it && it.canOpen && !it.isOpen) toggle(it);
  else if (!it) zoomAt(ev.offsetX, ev.offsetY, 1.6);
});
canvas.addEventListener("wheel", (ev) => {
  ev.preventDefault();
  const size = canvas.getBoundingClientRect();
  const step = ev.deltaMode === 1 ? 30 : ev.deltaMode === 2 ? 300 : 1;
  zoomAt(ev.clientX - size.left, ev.clientY - size.top, Math.exp(-Math.max(-240, Math.min(240, ev.deltaY * step)) * (ev.ctrlKey ? 0.008 : 0.0018)));
}, { passive: false });

function neighbour(it, key) {
  const all = scene.edges.map((e) => e.e);
  if (key === "ArrowDown") return (all.find((e) => e.from === it) || {}).to;
  if (key === "ArrowUp") return (all.find((e) => e.to === it) || {}).from;
  const way = key === "ArrowRight" ? 1 : -1;
  const row = [...scene.nodes, ...scene.boxes].filter((n) => n.parent === it.parent && n !== it && Math.abs(n.ay + n.h / 2 - it.ay - it.h / 2) < (n.h + it.h) / 2 && (n.ax - it.ax) * way > 0);
  return row.sort((a, b) => (a.ax - b.ax) * way)[0];
}
canvas.addEventListener("keydown", (ev) => {
  const it = picked === null ? null : scene.by.get(picked);
  if (ev.ctrlKey || ev.metaKey || ev.altKey) return;
  if (ev.key.startsWith("Arrow")) {
    if (ev.shiftKey) {
      view.x += ev.key === "ArrowLeft" ? 80 : ev.key === "ArrowRight" ? -80 : 0;
      view.y += ev.key === "ArrowUp" ? 80 : ev.key === "ArrowDown" ? -80 : 0;
      refresh();
    } else {
      const to = it ? neighbour(it, ev.key) : scene.nodes[0];
      if (to) pick(to.key, true);
    }
  } else if (ev.key === "Enter" || ev.key === " ") {
    if (it) toggle(it);
  } else if (ev.key === "Escape") pick(null, false);
  else return;
  ev.preventDefault();
});
addEventListener("keydown", (ev) => {
  if (ev.ctrlKey || ev.metaKey || ev.altKey || /INPUT|SELECT|TEXTAREA/.test(ev.target.tagName) || $("graph").hidden) return;
  const act = { "/": () => $("find").focus(), "+": () => zoomMiddle(1.25), "=": () => zoomMiddle(1.25), "-": () => zoomMiddle(0.8), 0: fit, e: openAll, c: closeAll }[ev.key];
  if (!act) return;
  ev.preventDefault();
  act();
});
function openAll() {
  openSome(6000, true);
  rebuild();
  fit();
  if (view.k < 0.15) fitTop();
}
function closeAll() { opened.clear(); rebuild(); fitTop(); }
$("in").onclick = () => zoomMiddle(1.25);
$("out").onclick = () => zoomMiddle(0.8);
$("fit").onclick = fit;
$("open").onclick = openAll;
$("close").onclick = closeAll;
$("map").addEventListener("pointerdown", (ev) => {
  const s = mapScale();
  const size = canvas.getBoundingClientRect();
  view.x = size.width / 2 - ((ev.offsetX - s.x) / s.k) * view.k;
  view.y = size.height / 2 - ((ev.offsetY - s.y) / s.k) * view.k;
  refresh();
});
new ResizeObserver(refresh).observe(canvas);

const split = $("split");
function setSplit(width) { document.querySelector("aside").style.width = Math.max(220, Math.min(innerWidth * 0.75, width)) + "px"; }
split.addEventListener("pointerdown", (ev) => split.setPointerCapture(ev.pointerId));
split.addEventListener("pointermove", (ev) => { if (split.hasPointerCapture(ev.pointerId)) setSplit(innerWidth - ev.clientX); });
split.addEventListener("keydown", (ev) => {
  const by = { ArrowLeft: 40, ArrowRight: -40 }[ev.key];
  if (by) setSplit(document.querySelector("aside").offsetWidth + by);
});

// -- Finding -----------------------------------------------------------------------------------------------------

// All items, opened or not; with the keys of the boxes around them.
function everything(most) {
  const out = [];
  const walk = (I, b, around) => {
    for (const n of b.nodes) {
      if (out.length >= most) return;
      if (isFolded(I.F, n) || isThrough(I.F, n)) continue;
      const it = itemOf(I, n);
      out.push({ it, around, text: (it.title + " " + it.sub + " " + it.I.path + " " + nameOf(n) + " " + n.out.map((v) => I.F.f.values[v][0]).join(" ")).toLowerCase() });
      if (it.kind === "call" && it.canOpen) walk(it.body, it.body.F.f, [...around, it.key]);
      else if (n.blocks) for (const x of n.blocks) walk(I, x, [...around, it.key]);
    }
  };
  const I = start();
  walk(I, I.F.f, []);
  return out;
}
let findable = null;
let hits = [];
let hit = -1;
function search() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  findable = findable || everything(20000);
  hits = words.length ? findable.filter((x) => words.every((w) => x.text.includes(w))).slice(0, 60) : [];
  hit = hits.length ? 0 : -1;
  showHits();
}
function showHits() {
  const list = $("found");
  const open = $("find").value.trim() !== "";
  list.hidden = !open;
  $("find").setAttribute("aria-expanded", String(open));
  list.replaceChildren(...hits.map((h, i) => el("li", { role: "option", "aria-selected": String(i === hit), onpointerdown: (ev) => { ev.preventDefault(); go(i); } },
    h.it.title, el("span", { class: "quiet" }, h.it.sub || h.it.I.path))));
  if (open && !hits.length) list.append(el("li", { class: "quiet" }, "nothing found"));
  const now = list.children[hit];
  if (now) now.scrollIntoView({ block: "nearest" });
}
function go(i) {
  const h = hits[i];
  if (!h) return;
  for (const key of h.around) opened.set(key, true);
  rebuild();
  pick(h.it.key, true);
  const it = scene.by.get(h.it.key);
  if (it) {
    const size = canvas.getBoundingClientRect();
    view.k = Math.max(view.k, 0.7);
    view.x = size.width / 2 - (it.ax + it.w / 2) * view.k;
    view.y = size.height / 2 - (it.ay + it.h / 2) * view.k;
  }
  $("found").hidden = true;
  refresh();
}
$("find").addEventListener("input", search);
$("find").addEventListener("keydown", (ev) => {
  if (ev.key === "ArrowDown" || ev.key === "ArrowUp") {
    hit = hits.length ? (hit + (ev.key === "ArrowDown" ? 1 : hits.length - 1)) % hits.length : -1;
    showHits();
    ev.preventDefault();
  } else if (ev.key === "Enter") go(hit);
  else if (ev.key === "Escape") { $("found").hidden = true; canvas.focus(); }
});
$("find").addEventListener("blur", () => { $("found").hidden = true; });

// -- Details --------------------------------------------------------------------------------------------------------

function rows(pairs) {
  const dl = el("dl");
  for (const [k, v] of pairs) dl.append(el("dt", {}, k), el("dd", {}, ...(Array.isArray(v) ? v : [v])));
  return dl;
}
function producerLink(I, v) {
  const name = valueName(I.F, v);
  const n = I.F.defs[v];
  const key = n ? I.key + "/" + n.seq : I.key + "/v" + v;
  const type = I.F.f.values[v][1];
  const to = scene.by.get(key);
  const label = n ? name + " = " + short(nameOf(n)) : name;
  return [to ? el("button", { class: "link mono", onclick: () => pick(key, true) }, label) : el("span", { class: "mono" }, label), " ", el("span", { class: "quiet" }, type)];
}
function inputText(I, v) {
  const t = textOf(I, v);
  if (t === null) return producerLink(I, v);
  const w = weightOf(I, v);
  return w ? [el("span", { class: "mono" }, t), " ", el("span", { class: "quiet" }, w.dtype + " " + shape(w.shape))] : [el("span", { class: "mono" }, t)];
}
function overview() {
  const box = $("details");
  const m = method;
  box.replaceChildren(el("h2", {}, m.name), el("p", { class: "mono" }, m.schema),
    el("h3", {}, "How to"), el("p", { class: "quiet" }, "Drag to move, wheel to zoom. Click a node for its inputs, attributes and source line; double-click one with + to look inside. / finds, arrow keys walk."));
  if (M && whole.I.measured) box.append(el("h3", {}, "Measured"), rows([["calls", count(M.calls)], ["each", time(M.seconds / M.calls)]]));
}
function showDetails(it) {
  if (!it) { overview(); return; }
  const box = $("details");
  const { I, n } = it;
  const parts = [el("h2", { class: "c-" + it.cat }, el("span", { class: "dot" }), n ? (n.call !== undefined ? it.title : nameOf(n) + (n.op !== undefined && P.ops[n.op].overload ? "." + P.ops[n.op].overload : "")) : it.title)];
  if (it.missing) parts.push(el("p", { class: "alarm" }, "Known, but cannot run in this build."));
  if (!n) {
    if (it.value !== undefined) parts.push(rows([["value", [el("span", { class: "mono" }, valueName(I.F, it.value))]], ["type", I.F.f.values[it.value][1]]]));
    else parts.push(el("h3", {}, "Values"), rows(it.ins.map((v, i) => [String(i), inputText(I, v)])));
    box.replaceChildren(...parts);
    return;
  }
  const about = [];
  if (it.kind === "call") about.push(["function", [el("span", { class: "mono" }, it.body.F.f.name)]]);
  const path = it.kind === "call" ? it.body.path : I.path;
  if (path) about.push(["module", [el("span", { class: "mono" }, path)]]);
  for (const k in n.attrs || {}) if (!(k === "name" && it.kind === "call")) about.push([k, [el("span", { class: "mono" }, n.attrs[k])]]);
  if (about.length) parts.push(rows(about));
  if (it.canOpen) parts.push(el("p", {}, el("button", { class: "link", onclick: () => toggle(it) }, it.isOpen ? "Close this box" : "Look inside")));
  if (it.measured) {
    const r = it.measured;
    const list = [["share", percent(shareOf(r))], ["each", time(r.total / r.calls)], ["calls", count(r.calls)]];
    if (it.kind === "op" && r.name && !r.name.startsWith(nameOf(n))) list.push(["runs as", [el("span", { class: "mono" }, r.name), " with others"]]);
    if (r.inputs) list.push(["inputs", [el("span", { class: "mono" }, r.inputs)]]);
    parts.push(el("h3", {}, "Measured"), rows(list));
  }
  const names = n.op === undefined ? [] : P.ops[n.op].args;
  const args = n.in.map((v, i) => [names[i] || (n.kind === "prim::Loop" ? ["trips", "go on"][i] : null) || (it.kind === "call" && i === 0 && it.body.F.f.self !== null ? "self" : String(i)), inputText(I, v)]);
  if (args.length) parts.push(el("h3", {}, "Inputs"), rows(args));
  const mine = it.kind === "call" ? it.body.path + "." : null;
  const own = mine ? D.weights.filter((w) => w.name.startsWith(mine) && !w.name.slice(mine.length).includes(".")) : [];
  if (own.length) parts.push(el("h3", {}, "Weights"), rows(own.map((w) => [w.name.slice(mine.length), w.dtype + " " + shape(w.shape)])));
  if (n.out.length) parts.push(el("h3", {}, "Outputs"), rows(n.out.map((v) => [valueName(I.F, v), I.F.f.values[v][1]])));
  box.replaceChildren(...parts);
  box.scrollTop = 0;
}

// -- Source -----------------------------------------------------------------------------------------------------------

let shownSource = -1;
let byLine = new Map();
const WORDS = /("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(#.*$)|\b(def|return|if|elif|else|for|while|in|not|and|or|is|class|import|from|with|as|pass|break|continue|raise|assert|True|False|None|lambda|self|annotate|unchecked_cast)\b|(\b\d[\w.]*)/g;
function highlighted(line) {
  const out = [];
  let at = 0;
  for (const m of line.matchAll(WORDS)) {
    if (m.index > at) out.push(line.slice(at, m.index));
    out.push(el("span", { class: m[1] ? "s" : m[2] ? "q" : m[3] ? "k" : "n" }, m[0]));
    at = m.index + m[0].length;
  }
  out.push(line.slice(at));
  return out;
}
function indexLines() {
  byLine = new Map();
  for (const it of [...scene.nodes, ...scene.boxes]) {
    if (!it.node || !it.node.at) continue;
    const key = it.node.at.join(":");
    if (!byLine.has(key)) byLine.set(key, it.key);
  }
}
function openSource(i) {
  if (!P.sources[i]) return;
  $("sources").value = String(i);
  shownSource = i;
  indexLines();
  const lines = P.sources[i].text.split("\n").slice(0, 20000);
  $("source").replaceChildren(...lines.map((text, k) => el("div", { class: "row" + (byLine.has(i + ":" + (k + 1)) ? " has" : ""), "data-line": k + 1 },
    el("span", { class: "no" }, String(k + 1)), el("span", {}, ...highlighted(text.slice(0, 2000))))));
}
function showSource(it) {
  const at = it.node && it.node.at;
  if (!at) return;
  if (at[0] !== shownSource) openSource(at[0]);
  for (const r of $("source").querySelectorAll(".here")) r.classList.remove("here");
  const row = $("source").children[at[1] - 1];
  if (!row) return;
  row.classList.add("here");
  const box = $("source");
  const y = row.offsetTop - box.offsetTop;
  if (y < box.scrollTop + 20 || y > box.scrollTop + box.clientHeight - 40) box.scrollTop = y - box.clientHeight / 3;
}
$("source").addEventListener("click", (ev) => {
  const row = ev.target.closest(".row");
  if (!row) return;
  indexLines();
  const key = byLine.get(shownSource + ":" + row.dataset.line);
  if (key) pick(key, true);
});
$("sources").onchange = () => openSource(+$("sources").value);

// -- Tables ---------------------------------------------------------------------------------------------------------------

// columns: {name, of: row -> sortable, show: row -> node or text, right, mono, wide}.
function table(columns, data, sortBy, down) {
  const body = el("tbody");
  const heads = [];
  let by = sortBy;
  let falling = down;
  const fill = () => {
    const c = columns[by];
    const list = [...data].sort((a, b) => {
      const x = c.of(a);
      const y = c.of(b);
      return (x < y ? -1 : x > y ? 1 : 0) * (falling ? -1 : 1);
    });
    heads.forEach((h, i) => (i === by ? h.setAttribute("aria-sort", falling ? "descending" : "ascending") : h.removeAttribute("aria-sort")));
    body.replaceChildren(...list.map((r) => el("tr", {}, ...columns.map((k) => {
      const v = k.show ? k.show(r) : k.of(r);
      const e = el("td", { class: [k.right ? "r" : "", k.mono ? "mono" : "", k.wide ? "wide" : ""].join(" ").trim() }, v);
      if (k.wide && typeof v === "string") e.title = v;
      return e;
    }))));
  };
  columns.forEach((c, i) => {
    const h = el("th", { scope: "col", class: c.right ? "r" : "" }, el("button", { onclick: () => {
      falling = by === i ? !falling : Boolean(c.right);
      by = i;
      fill();
    } }, c.name));
    heads.push(h);
  });
  fill();
  const t = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body);
  t.use = (rowsNow) => { data = rowsNow; fill(); };
  return t;
}
function bar(x, hot) {
  const i = el("i");
  i.style.width = Math.min(100, 100 * x).toFixed(1) + "%";
  return el("span", { class: "share" + (hot ? " hot" : "") }, i);
}
function histogram(bins) {
  const s = svg("svg", { class: "bins", viewBox: "0 0 96 22", role: "img", "aria-label": "histogram" });
  const most = Math.max(...bins);
  const w = 96 / bins.length;
  s.append(svg("path", { d: bins.map((b, i) => { const h = b ? Math.max(1, (21 * b) / most) : 0; return `M${round(i * w)} 22v${-round(h)}h${round(w - 0.6)}v${round(h)}z`; }).join("") }));
  return s;
}

function showWeights() {
  const all = [...D.weights.map((w) => ({ ...w, role: w.parameter ? "parameter" : "buffer" })), ...P.constants.map((c) => ({ ...c, role: "constant" }))];
  const box = $("weights");
  if (!all.length) { box.append(el("p", { class: "empty" }, "No weights: neither parameters nor buffers.")); return; }
  const columns = [
    { name: "name", of: (w) => w.name, mono: true, wide: true }, { name: "role", of: (w) => w.role }, { name: "dtype", of: (w) => w.dtype },
    { name: "shape", of: (w) => w.shape.reduce((a, b) => a * b, 1), show: (w) => shape(w.shape), right: true },
    { name: "bytes", of: (w) => w.bytes, show: (w) => bytes(w.bytes), right: true },
    { name: "min", of: (w) => w.min ?? 0, show: (w) => few(w.min), right: true }, { name: "mean", of: (w) => w.mean ?? 0, show: (w) => few(w.mean), right: true },
    { name: "max", of: (w) => w.max ?? 0, show: (w) => few(w.max), right: true },
    { name: "values", of: (w) => w.odd || 0, show: (w) => (w.odd ? el("span", { class: "alarm" }, count(w.odd) + " not finite") : w.bins && w.bytes > 8 ? histogram(w.bins) : "") },
  ];
  const order = new Map(all.map((w, i) => [w, i]));
  const t = table(columns, all, 4, true);
  const input = el("input", { type: "search", placeholder: "Filter by name, role or dtype", "aria-label": "Filter weights" });
  const note = el("span", { class: "quiet" }, count(all.length) + " tensors");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const some = all.filter((w) => words.every((x) => (w.name + " " + w.role + " " + w.dtype + " " + shape(w.shape)).toLowerCase().includes(x)));
    note.textContent = count(some.length) + " of " + count(order.size) + " tensors";
    t.use(some);
  });
  box.append(el("div", { class: "tools" }, input, note), el("div", { class: "card" }, t));
}

function showOperators() {
  const box = $("operators");
  const uses = new Map();
  for (let i = 0; i < P.functions.length; i++) for (const n of prepare(i).nodes) {
    if (n.op === undefined) continue;
    const o = P.ops[n.op];
    const name = o.name + (o.overload ? "." + o.overload : "");
    const u = uses.get(name) || { name, n: 0, runs: o.runs, cat: category(n) };
    u.n++;
    uses.set(name, u);
  }
  if (M) {
    const shares = { name: "share", of: (o) => o.share, show: (o) => bar(o.share, true) };
    const columns = [{ name: "operator", of: (o) => o.name, mono: true }, { name: "calls", of: (o) => o.calls, show: (o) => count(o.calls / M.calls), right: true },
      { name: "self", of: (o) => o.self, show: (o) => time(o.self / M.calls), right: true }, { name: "total", of: (o) => o.total, show: (o) => time(o.total / M.calls), right: true },
      { name: "mean", of: (o) => o.mean, show: (o) => time(o.mean), right: true }, { name: "%", of: (o) => o.share, show: (o) => percent(o.share), right: true }, shares];
    box.append(el("div", { class: "card" }, el("h2", {}, `Measured operators: ${time(M.seconds / M.calls)} a call (mean of ${M.calls})`), table(columns, M.operators, 5, true)));
    if (M.lines.length) {
      const lines = [{ name: "line", of: (l) => (l.file || "") + ":" + String(l.line).padStart(6), show: (l) => (l.file || "").split("/").slice(-2).join("/") + ":" + l.line, mono: true }, { name: "code", of: (l) => l.code, mono: true, wide: true },
        { name: "self", of: (l) => l.self, show: (l) => time(l.self / M.calls), right: true }, { name: "%", of: (l) => l.share, show: (l) => percent(l.share), right: true },
        { name: "share", of: (l) => l.share, show: (l) => bar(l.share, true) }];
      box.append(el("div", { class: "card" }, el("h2", {}, "Measured source lines"), table(lines, M.lines.filter((l) => l.self > 0), 3, true)));
    }
  }
  const list = [...uses.values()];
  const sum = list.reduce((s, u) => s + u.n, 0);
  const columns = [{ name: "operator", of: (u) => u.name, mono: true }, { name: "in the code", of: (u) => u.n, show: (u) => count(u.n), right: true }, { name: "%", of: (u) => u.n, show: (u) => percent(u.n / sum), right: true },
    { name: "share", of: (u) => u.n, show: (u) => bar(u.n / sum) }, { name: "runs here", of: (u) => (u.runs ? 1 : 0), show: (u) => (u.runs ? "yes" : el("span", { class: "alarm" }, "no")) }];
  box.append(el("div", { class: "card" }, el("h2", {}, `Operators in the code: ${count(list.length)} kinds, ${count(sum)} places`), list.length ? table(columns, list, 1, true) : el("p", { class: "empty" }, "None.")));
}

// -- The page ---------------------------------------------------------------------------------------------------------------

const tabs = ["graph", "weights", "operators"];
const made = new Set(["graph"]);
function showTab(name) {
  for (const t of tabs) {
    $(t).hidden = t !== name;
    $("tab-" + t).setAttribute("aria-selected", String(t === name));
    $("tab-" + t).tabIndex = t === name ? 0 : -1;
  }
  if (!made.has(name)) {
    made.add(name);
    if (name === "weights") showWeights();
    else showOperators();
  }
  refresh();
}
for (const t of tabs) {
  $("tab-" + t).onclick = () => showTab(t);
  $("tab-" + t).addEventListener("keydown", (ev) => {
    const by = { ArrowRight: 1, ArrowLeft: tabs.length - 1 }[ev.key];
    if (!by) return;
    const to = tabs[(tabs.indexOf(t) + by) % tabs.length];
    showTab(to);
    $("tab-" + to).focus();
  });
}

function useMethod(i) {
  method = P.methods[i];
  opened.clear();
  findable = null;
  picked = null;
  openSome(300, false);
  rebuild();
  fitTop();
  overview();
  const places = prepare(method.function).nodes.filter((n) => n.at).map((n) => n.at);
  if (!places.length) return;
  openSource(places[0][0]);
  const row = $("source").children[Math.min(...places.filter((p) => p[0] === places[0][0]).map((p) => p[1])) - 1];
  if (row) $("source").scrollTop = row.offsetTop - $("source").offsetTop - 60;
}
$("method").onchange = () => useMethod(+$("method").value);

function setUp() {
  document.title = D.file + " – Rushlight";
  $("file").textContent = D.file;
  $("file").title = D.file;
  $("format").textContent = P.format;
  $("class").textContent = P.class.replace(/^__torch__\./, "").replace(/___torch_mangle_\d+\./g, "");
  $("class").title = P.class;
  const elements = (list) => list.reduce((s, w) => s + w.shape.reduce((a, b) => a * b, 1), 0);
  const parameters = elements(D.weights.filter((w) => w.parameter));
  const size = [...D.weights, ...P.constants].reduce((s, w) => s + w.bytes, 0);
  const places = P.functions.reduce((s, _, i) => s + prepare(i).nodes.filter((n) => n.op !== undefined).length, 0);
  const totals = [[parameters || elements([...D.weights, ...P.constants]), parameters ? "parameters" : "elements"], [null, "of weights"], [P.methods.length, P.methods.length === 1 ? "method" : "methods"],
    [P.functions.length, P.functions.length === 1 ? "function" : "functions"], [places, "operators"]];
  totals[1][0] = bytes(size);
  for (const [n, what] of totals) if (n && n !== "0 B") $("totals").append(el("li", {}, el("b", {}, typeof n === "number" ? (n >= 1e6 ? amount(n, ["", "k", "M", "G"], 1000) : count(n)) : n), " " + what));
  if (M) $("totals").append(el("li", {}, el("b", {}, time(M.seconds / M.calls)), " a call"));
  P.methods.forEach((m, i) => $("method").append(el("option", { value: i }, m.name)));
  P.sources.forEach((s, i) => $("sources").append(el("option", { value: i }, s.name)));
  if (!P.sources.length) $("source").append(el("p", { class: "empty" }, "The archive has no source."));
}

// #tab=weights&method=step&open=all&find=conv: what a link may ask for.
function obey() {
  const q = new URLSearchParams(location.hash.slice(1));
  const m = P.methods.findIndex((x) => x.name === q.get("method"));
  if (m >= 0) { $("method").value = String(m); useMethod(m); }
  if (q.get("open") === "all") openAll();
  if (q.get("open") === "none") closeAll();
  if (q.has("fit")) fit();
  if (q.has("find")) { $("find").value = q.get("find"); search(); go(0); }
  if (tabs.includes(q.get("tab"))) showTab(q.get("tab"));
}

setUp();
if (P.methods.length) {
  const forward = Math.max(0, P.methods.findIndex((m) => M ? M.methods.some((r) => r.parent === null && r.name === P.functions[m.function].name) : m.name === "forward"));
  $("method").value = String(forward);
  useMethod(forward);
  obey();
  addEventListener("hashchange", obey);
} else {
  $("details").append(el("p", { class: "empty" }, "The archive has no methods."));
  showTab("weights");
}
requestAnimationFrame(() => requestAnimationFrame(() => { draw(); root.dataset.ready = "1"; }));
