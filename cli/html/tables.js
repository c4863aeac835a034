// tables.js: weights and operators as tables.

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

// A picture of a weight's values, or the reason why there is none.
function valuesOf(w) {
  if (w.why) return el("span", { class: "quiet" }, w.why);
  if (w.role === "constant") return el("span", { class: "quiet" }, "a constant of the code: not read");
  const elements = w.shape.reduce((a, b) => a * b, 1);
  const odd = w.odd ? el("span", { class: "alarm" }, (w.odd === elements ? "none is finite" : count(w.odd) + " not finite")) : null;
  if (w.odd === elements) return odd;
  if (w.min === w.max) return el("span", {}, el("span", { class: "quiet" }, elements === 1 ? "one value" : "all the same"), odd ? ", " : null, odd);
  return el("span", { class: "values" }, histogram(w.bins), odd);
}

function showWeights() {
  const all = [...D.weights, ...P.constants.map((c) => ({ ...c, role: "constant" }))];
  const box = $("weights");
  if (!all.length) { box.append(el("p", { class: "empty" }, "No weights: neither parameters nor buffers.")); return; }
  const columns = [
    { name: "name", of: (w) => w.name, mono: true, wide: true }, { name: "role", of: (w) => w.role }, { name: "dtype", of: (w) => w.dtype },
    { name: "shape", of: (w) => w.shape.reduce((a, b) => a * b, 1), show: (w) => shape(w.shape), right: true },
    { name: "bytes", of: (w) => w.bytes, show: (w) => bytes(w.bytes), right: true },
    { name: "min", of: (w) => w.min ?? 0, show: (w) => few(w.min), right: true }, { name: "mean", of: (w) => w.mean ?? 0, show: (w) => few(w.mean), right: true },
    { name: "max", of: (w) => w.max ?? 0, show: (w) => few(w.max), right: true },
    { name: "values", of: (w) => w.odd || 0, show: valuesOf },
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
    if (n.op === undefined && !n.unknown) continue;
    const o = n.unknown ? { name: n.kind, overload: "", runs: false } : P.ops[n.op];
    const name = o.name + (o.overload ? "." + o.overload : "");
    const u = uses.get(name) || { name, n: 0, runs: o.runs, why: n.unknown ? "no: unknown" : "no" };
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
  const missing = list.filter((u) => !u.runs);
  if (missing.length) {
    const names = [{ name: "operator", of: (u) => u.name, mono: true }, { name: "in the code", of: (u) => u.n, show: (u) => count(u.n), right: true }, { name: "why", of: (u) => u.why, show: (u) => (u.why === "no" ? "known by its schema only" : "unknown: a plug-in may bring it") }];
    box.append(el("div", { class: "card" }, el("h2", { class: "alarm" }, `Cannot run here: ${count(missing.length)} operator${missing.length > 1 ? "s" : ""}`), table(names, missing, 1, true)));
  }
  const sum = list.reduce((s, u) => s + u.n, 0);
  const columns = [{ name: "operator", of: (u) => u.name, mono: true }, { name: "in the code", of: (u) => u.n, show: (u) => count(u.n), right: true }, { name: "%", of: (u) => u.n, show: (u) => percent(u.n / sum), right: true },
    { name: "share", of: (u) => u.n, show: (u) => bar(u.n / sum) }, { name: "runs here", of: (u) => (u.runs ? 1 : 0), show: (u) => (u.runs ? "yes" : el("span", { class: "alarm" }, u.why)) }];
  box.append(el("div", { class: "card" }, el("h2", {}, `Operators in the code: ${count(list.length)} kinds, ${count(sum)} places`), list.length ? table(columns, list, 1, true) : el("p", { class: "empty" }, "None.")));
}

