// panel.js: search for nodes, the details of the selected one, and its source.

// -- Finding -----------------------------------------------------------------------------------------------------

const weightNames = (I, n) => n.in.map((v) => (weightOf(I, v) ? pathOf(I, v) : "")).join(" ");

// All items, opened or not; with the keys of the boxes around them.
function everything(most) {
  const out = [];
  const walk = (I, b, around) => {
    for (const n of b.nodes) {
      if (out.length >= most) return;
      if (isFolded(I.F, n) || isThrough(I.F, n)) continue;
      const it = itemOf(I, n);
      out.push({ it, around, text: (it.title + " " + it.sub + " " + it.I.path + " " + nameOf(n) + " " + n.out.map((v) => I.F.f.values[v][0]).join(" ") + " " + weightNames(I, n)).toLowerCase() });
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
const MOST_HITS = 60; // in the list; walking goes through all
function search() {
  const words = $("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  findable = findable || everything(50000);
  hits = words.length ? findable.filter((x) => words.every((w) => x.text.includes(w))) : [];
  hit = hits.length ? 0 : -1;
  showHits();
}
function showHits() {
  const list = $("found");
  const isOpen = $("find").value.trim() !== "";
  list.hidden = !isOpen;
  $("find").setAttribute("aria-expanded", String(isOpen));
  const first = Math.max(0, Math.min(hit - MOST_HITS / 2, hits.length - MOST_HITS));
  list.replaceChildren(...hits.slice(first, first + MOST_HITS).map((h, i) => el("li", { role: "option", "aria-selected": String(first + i === hit), onpointerdown: (ev) => { ev.preventDefault(); go(first + i); } },
    h.it.title, el("span", { class: "quiet" }, h.it.sub || h.it.I.path))));
  if (isOpen) list.append(el("li", { class: "quiet" }, hits.length > MOST_HITS ? count(hits.length) + " in all; Enter shows the next" : hits.length ? "" : "nothing found"));
  if (!list.lastChild || !list.lastChild.textContent) list.lastChild?.remove();
  list.children[hit - first]?.scrollIntoView({ block: "nearest" });
  showCount();
}
function showCount() {
  $("count").textContent = hits.length && $("find").value.trim() ? `${count(hit + 1)} of ${count(hits.length)}` : "";
}
// Moves to a hit, cyclically; opens the boxes that it is in.
function go(i) {
  if (!hits.length) return;
  hit = (i + hits.length) % hits.length;
  const h = hits[hit];
  const closed = h.around.filter((key) => !opened.get(key));
  for (const key of closed) opened.set(key, true);
  if (closed.length) rebuild();
  pick(h.it.key, false);
  const it = scene.by.get(h.it.key);
  if (it) centreOn(it);
  $("found").hidden = true;
  $("find").setAttribute("aria-expanded", "false");
  showCount();
}
$("find").addEventListener("input", search);
$("find").addEventListener("keydown", (ev) => {
  if (ev.key === "ArrowDown" || ev.key === "ArrowUp") {
    hit = hits.length ? (hit + (ev.key === "ArrowDown" ? 1 : hits.length - 1)) % hits.length : -1;
    showHits();
    ev.preventDefault();
  } else if (ev.key === "Enter") go($("found").hidden ? hit + (ev.shiftKey ? -1 : 1) : hit);
  else if (ev.key === "Escape") { $("found").hidden = true; canvas.focus(); }
});
$("find").addEventListener("focus", () => { if (hits.length === 0) search(); });
$("find").addEventListener("blur", () => { $("found").hidden = true; });

// -- The panel -----------------------------------------------------------------------------------------------------

function showPanel(isOn) {
  $("panel").hidden = $("split").hidden = !isOn;
  $("aside").setAttribute("aria-pressed", String(isOn));
  if (isOn) buildSource();
}
$("aside").onclick = () => showPanel($("panel").hidden);
$("shut").onclick = () => showPanel(false);

const split = $("split");
function setSplit(width) { $("panel").style.width = Math.max(220, Math.min(innerWidth * 0.75, width)) + "px"; }
split.addEventListener("pointerdown", (ev) => split.setPointerCapture(ev.pointerId));
split.addEventListener("pointermove", (ev) => { if (split.hasPointerCapture(ev.pointerId)) setSplit(innerWidth - ev.clientX); });
split.addEventListener("keydown", (ev) => {
  const by = { ArrowLeft: 40, ArrowRight: -40 }[ev.key];
  if (by) setSplit($("panel").offsetWidth + by);
});

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
    el("h3", {}, "How to"), el("p", { class: "quiet" }, "Drag to move, wheel to zoom. Click a node for its inputs, attributes and source line; its + looks inside."),
    rows([["/  n  N", "find, next, previous"], ["arrows, Enter", "from node to node, open or close a box"], ["+  -  0", "zoom in, out, all"], ["Home  End", "the inputs, the result"],
      ["e  c", "open, close every box"], ["s  Escape", "this panel"]]));
  if (M && whole.I.measured) box.append(el("h3", {}, "Measured"), rows([["calls", count(M.calls)], ["each", time(M.seconds / M.calls)]]));
}
function showDetails(it) {
  if (!it) { overview(); return; }
  const box = $("details");
  const { I, n } = it;
  const parts = [el("h2", { class: "c-" + it.cat }, el("span", { class: "dot" }), n ? (n.call !== undefined ? it.title : nameOf(n) + (n.op !== undefined && P.ops[n.op].overload ? "." + P.ops[n.op].overload : "")) : it.title)];
  if (it.missing) parts.push(el("p", { class: "alarm" }, n.unknown ? "Unknown operator: it cannot run here unless a plug-in brings it." : "Known, but cannot run in this build."));
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

// Lines are made when they become visible, CHUNK at a time: sources have tens of thousands.
const CHUNK = 200;
const LINE_HEIGHT = 19.375; // as in the style sheet: 12.5 * 1.55
let builtSource = -1;
let lines = [];
let wantedLine = 1;
function openSource(i, line) {
  if (!P.sources[i]) return;
  $("sources").value = String(i);
  shownSource = i;
  wantedLine = line || 1;
  buildSource();
}
function buildSource() {
  if ($("panel").hidden || shownSource < 0) return;
  if (builtSource !== shownSource) {
    builtSource = shownSource;
    indexLines();
    lines = P.sources[shownSource].text.split("\n");
    const chunks = [];
    for (let i = 0; i < lines.length; i += CHUNK) {
      chunks.push(el("div", { class: "chunk" }));
      chunks[chunks.length - 1].style.height = Math.min(CHUNK, lines.length - i) * LINE_HEIGHT + "px";
    }
    $("source").replaceChildren(...chunks);
  }
  const row = rowOf(wantedLine);
  const box = $("source");
  if (row) {
    const y = row.offsetTop - box.offsetTop;
    if (y < box.scrollTop + 20 || y > box.scrollTop + box.clientHeight - 40) box.scrollTop = y - box.clientHeight / 3;
  }
  fillSeen();
}
function fillChunk(c) {
  const chunk = $("source").children[c];
  if (!chunk || chunk.firstChild) return chunk;
  chunk.style.height = "";
  chunk.append(...lines.slice(c * CHUNK, (c + 1) * CHUNK).map((text, k) => {
    const line = c * CHUNK + k + 1;
    return el("div", { class: "row" + (byLine.has(shownSource + ":" + line) ? " has" : ""), "data-line": line },
      el("span", { class: "no" }, String(line)), el("span", {}, ...highlighted(text.slice(0, 2000))));
  }));
  return chunk;
}
function rowOf(line) { return fillChunk(Math.floor((line - 1) / CHUNK))?.children[(line - 1) % CHUNK] || null; }
function fillSeen() {
  const box = $("source");
  const first = Math.floor(box.scrollTop / LINE_HEIGHT / CHUNK);
  for (let c = first; c <= (box.scrollTop + box.clientHeight) / LINE_HEIGHT / CHUNK; c++) fillChunk(c);
}
$("source").addEventListener("scroll", fillSeen);
new ResizeObserver(fillSeen).observe($("source"));

function showSource(it) {
  const at = it.node && it.node.at;
  if (!at) return;
  openSource(at[0], at[1]);
  for (const r of $("source").querySelectorAll(".here")) r.classList.remove("here");
  rowOf(at[1])?.classList.add("here");
}
$("source").addEventListener("click", (ev) => {
  const row = ev.target.closest(".row");
  if (!row) return;
  indexLines();
  const key = byLine.get(shownSource + ":" + row.dataset.line);
  if (key) pick(key, true);
});
$("sources").onchange = () => openSource(+$("sources").value, 1);
