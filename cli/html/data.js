"use strict";
// data.js: the program that the page shows, and the tree of visible boxes. The page's script is these files
// in order: data.js, layout.js, draw.js, export.js, panel.js, tables.js, page.js. This one reads the block of
// JSON, names and folds nodes, and makes the items that are drawn. Text from the archive is written to the
// document only through textContent and attributes.

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

const weights = new Map(D.weights.map((w) => [w.role === "packed" ? w.name.replace(/\.weight$/, "") : w.name, w]));
const ready = new Map();

// defs[value]: the node that computes it, or null for an argument. Nodes get their number and block.
function prepare(fi) {
  if (ready.has(fi)) return ready.get(fi);
  const f = P.functions[fi];
  const loops = new Map();
  const F = { fi, f, loops, defs: new Array(f.values.length).fill(null), nodes: [], written: new Set() };
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
  if (P.modules) nest(f, P.modules);
  walk(f, null);
  ready.set(fi, F);
  for (const n of F.nodes) for (const v of writes(n)) F.written.add(v);
  return F;
}

// Puts the nodes of an exported program's block into boxes, one for each call of a module: a node knows its module, and
// that the module around it.
function nest(b, modules) {
  const chain = (m) => (m === null || m === undefined || modules[m].outer === null ? [] : [...chain(modules[m].outer), m]);
  const top = { nodes: [], module: null };
  const open = [top];
  for (const n of b.nodes) {
    for (const inner of n.blocks || []) nest(inner, modules);
    const path = n.module === undefined ? open.slice(1).map((g) => g.module) : chain(n.module);
    let depth = 1;
    while (depth < open.length && open[depth].module === path[depth - 1]) depth++;
    open.length = depth;
    for (const module of path.slice(depth - 1)) {
      const g = { kind: "module", module, nodes: [], in: [], out: [] };
      open[open.length - 1].nodes.push(g);
      open.push(g);
    }
    open[open.length - 1].nodes.push(n);
  }
  b.nodes = top.nodes;
  closeGroups(b, new Set(b.out));
}
// Gives the boxes of a block what they take and make; `after`: values that are used behind the block.
function closeGroups(b, after) {
  const used = new Set(after);
  for (const n of [...b.nodes].reverse()) {
    if (n.kind === "module" && n.nodes) {
      const inside = { nodes: n.nodes, in: [], out: [] };
      const made = n.nodes.flatMap(madeBy);
      n.blocks = [inside];
      n.out = made.filter((v) => used.has(v));
      closeGroups(inside, used);
      delete n.nodes;
      const own = new Set(made);
      n.in = inside.in = [...new Set(inside.nodes.flatMap(freeValues))].filter((v) => !own.has(v));
    }
    for (const v of freeValues(n)) used.add(v);
  }
}
const madeBy = (n) => (n.nodes ? n.nodes.flatMap(madeBy) : n.out);

// The inputs that a node changes in place: by its operator's schema, by its callee, or by the nodes in its blocks.
function writes(n) {
  if (n.writes) return n.writes;
  n.writes = [];
  if (n.op !== undefined) n.writes = (P.ops[n.op].writes || []).map((i) => n.in[i]).filter((v) => v !== undefined);
  else if (n.call !== undefined) {
    const callee = prepare(n.call);
    n.writes = n.in.filter((_, i) => callee.written.has(callee.f.in[i]));
  }
  if (n.blocks) n.writes = [...new Set(n.blocks.flatMap((b) => b.nodes.flatMap(writes)))];
  return n.writes;
}

const isMissing = (n) => Boolean(n.unknown) || (n.op !== undefined && !P.ops[n.op].runs);
const nameOf = (n) => (n.op === undefined ? n.kind : P.ops[n.op].name);
const short = (name) => name.replace(/^\w+::/, "");

// Constants, weights and lists of them are shown in the nodes that use them, and not drawn. A list that grows later is not a constant.
function isFolded(F, n) {
  if (n.folded === undefined) {
    const k = n.kind;
    n.folded = k === "prim::Constant" || k === "prim::GetAttr" || k === "prim::Uninitialized" ||
      ((k === "prim::ListConstruct" || k === "prim::TupleConstruct" || k === "prim::DictConstruct") &&
        !F.written.has(n.out[0]) && n.in.every((v) => F.defs[v] && isFolded(F, F.defs[v])));
  }
  return n.folded;
}

// Lists of numbers, mostly sizes, are shown where they are used too; edges lead there from their items.
function isThrough(F, n) {
  return n.kind === "prim::ListConstruct" && !F.written.has(n.out[0]) && /^(int|float|bool)\[\]$/.test(F.f.values[n.out[0]][1]);
}

function className(fi) {
  const parts = P.functions[fi].name.split(".");
  const method = parts.pop();
  const owner = parts.pop() || "";
  const mangled = owner.startsWith("___torch_mangle") || owner === "__torch__" || owner === "functional" || owner === "";
  if (method === "forward" || method === "__call__") return mangled ? method : owner;
  return mangled ? method : owner + "." + method;
}

// The caller's value for an argument of the instance's function, or null.
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

// A folded value as text.
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
const categories = new Map();
function category(n) {
  if (n.blocks || /prim::(If|Loop|With|Raise|Print|fork|Enter|Exit|SetAttr|Interface|is|unchecked)/.test(n.kind || "")) return "ctrl";
  if (n.call !== undefined) return "call";
  const name = nameOf(n);
  if (!categories.has(name)) {
    const s = short(name).replace(/_$/, "");
    const found = KINDS.find(([, r]) => r.test(s));
    categories.set(name, found ? found[0] : n.op === undefined ? "other" : "point");
  }
  return categories.get(name);
}

// -- Measured: rows of the profile by place --------------------------------------------------

const measured = new Map();
const M = D.profile;
if (M) {
  M.methods.forEach((m, i) => { m.index = i; measured.set("m" + m.parent + "/" + m.node + "/" + m.name, m); });
  for (const n of M.nodes) measured.set("n" + n.parent + "/" + n.node, n);
}
const shareOf = (row) => (row && M ? row.total / M.seconds : 0);

// -- The tree on view --------------------------------------------------------------------------------------

// An instance is a function's body at one place: I = {F, path, key, row}. Items are drawn in a block; those
// with `blocks` can be opened.
const opened = new Map();
let whole = null;

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
  it.missing = isMissing(n);
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
  if (n.kind === "module") {
    const { path, class: name } = P.modules[n.module];
    return { kind: "ctrl", I, at: I, n, node: n, key: I.key + "/" + n.seq, title: name.split(".").pop(), cat: "call", canOpen: true, sub: path };
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

// The shapes of tensors, as they stand on the edges: "s77×4" of [name, "float32[s77, 4]", true].
const flowOf = (I, values) => values.map((v) => I.F.f.values[v]).filter((v) => v[2])
  .map((v) => v[1].replace(/^\w+\[|\]$/g, "").replace(/, /g, "×") || "scalar").join(", ");

function buildBlock(I, b, isBody) {
  const items = [];
  const by = new Map();
  const users = new Set();
  for (const n of b.nodes) for (const v of freeValues(n)) users.add(v);
  for (const v of b.out) users.add(v);
  for (const v of b.in) {
    if (v === I.F.f.self || !users.has(v) || (I.F.defs[v] && isFolded(I.F, I.F.defs[v]))) continue;
    const inside = b.owner && b.owner.kind === "module" ? "/" + b.owner.seq : "";
    const it = { kind: "io", cat: "io", I, at: I, value: v, key: I.key + "/v" + v + inside, title: valueName(I.F, v), sub: "", ins: [], flow: flowOf(I, [v]) };
    by.set(v, it);
    items.push(it);
  }
  for (const n of b.nodes) {
    if (isFolded(I.F, n) || isThrough(I.F, n)) continue;
    const it = itemOf(I, n);
    it.ins = freeValues(n);
    it.flow = flowOf(I, n.out);
    items.push(it);
    for (const v of n.out) by.set(v, it);
    if (it.canOpen && opened.get(it.key)) {
      it.isOpen = true;
      it.blocks = it.kind === "call" ? [buildBlock(it.body, it.body.F.f, true)] : n.blocks.map((x) => buildBlock(I, x, false));
    }
  }
  const shown = b.out.filter((v, i) => (n => n || isBody)(by.get(v)) && !(i === 0 && b.owner && b.owner.kind === "prim::Loop"));
  if (shown.length && (isBody || !b.nodes.every((n) => isFolded(I.F, n)))) {
    const end = { kind: "io", cat: "io", I, at: I, key: I.key + "/end" + (b.owner ? b.owner.seq + "." + b.owner.blocks.indexOf(b) : ""),
      title: isBody ? "return" : shown.map((v) => valueName(I.F, v)).join(", "), sub: "", ins: shown, isEnd: true };
    items.push(end);
  }
  if (!items.length) {
    const text = b.out.map((v) => textOf(I, v) || valueName(I.F, v)).join(", ");
    items.push({ kind: "io", cat: "io", I, at: I, key: I.key + "/none" + (b.owner ? b.owner.seq + "." + b.owner.blocks.indexOf(b) : ""), title: text || "nothing", sub: "", ins: [] });
  }
  return { items, edges: edgesOf(I, items, by) };
}

// The producers: the item that defines a value, or after that the last one that wrote it.
function edgesOf(I, items, by) {
  const edges = [];
  const from = (v, depth) => {
    const n = I.F.defs[v];
    return by.has(v) ? [by.get(v)] : n && depth < 9 && isThrough(I.F, n) ? n.in.flatMap((x) => from(x, depth + 1)) : [];
  };
  for (const it of items) {
    const seen = new Set([it]);
    for (const v of it.ins) for (const source of from(v, 0)) {
      if (seen.has(source)) continue;
      seen.add(source);
      edges.push({ from: source, to: it });
    }
    if (it.node) for (const v of writes(it.node)) by.set(v, it);
  }
  return edges;
}

