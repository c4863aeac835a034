// draw.js: the scene (every item with its place on the plane), its drawing, and navigation.

// -- Sizes of items -----------------------------------------------------------------------------------------

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
const INPUT = "500 13px";
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

const PAD = 16;
const HEAD = 28;

// Sets w and h of an item; open boxes are laid out first.
function sizeItem(it) {
  if (it.isOpen) {
    sizeBox(it);
    return;
  }
  const tw = textWidth(it.title, it.kind === "io" ? INPUT : TITLE) + (it.canOpen ? 18 : 0);
  const sw = it.sub ? textWidth(it.sub, SUB) : 0;
  it.w = Math.ceil(Math.min(MOST_WIDTH, Math.max(it.kind === "io" ? 40 : 76, Math.max(tw, sw) + 30)));
  it.h = it.kind === "io" ? 26 : (it.sub ? 44 : 30) + (it.measured ? 7 : 0);
}
function sizeBox(it) {
  const w = Math.min(600, textWidth(it.title, TITLE) + (it.sub ? textWidth(it.sub, SUB) + 14 : 0) + 52);
  let x = PAD;
  let h = 0;
  it.roof = HEAD + (it.n.kind === "prim::If" ? 22 : 8);
  for (const b of it.blocks) {
    layoutBlock(b, sizeItem);
    b.x = x;
    b.y = it.roof;
    x += b.w + 2 * PAD;
    h = Math.max(h, b.h);
  }
  x -= PAD;
  if (x < w) for (const b of it.blocks) b.x += (w - x) / 2;
  it.w = Math.max(w, x);
  it.h = h + it.roof + PAD;
}

// -- The scene: everything with its place on the plane ------------------------------------------------------

let scene = { nodes: [], boxes: [], edges: [], by: new Map(), w: 0, h: 0 };
const round = (n) => Math.round(n * 10) / 10;

// A path through the points of an edge, with curves or with straight lines whose corners are rounded.
function pathOfEdge(points) {
  let path = "M" + points[0].slice(0, 2).map(round);
  for (let i = 1; i < points.length; i++) {
    const [ax, ay] = points[i - 1];
    const [bx, by, isStraight] = points[i];
    const next = points[i + 1];
    if (!isStraight) {
      const mid = (ay + by) / 2;
      path += "C" + [ax, mid, bx, mid, bx, by].map(round);
    } else if (!next || !next[2]) {
      path += "L" + [bx, by].map(round);
    } else {
      const r = Math.min(6, Math.hypot(bx - ax, by - ay) / 2, Math.hypot(next[0] - bx, next[1] - by) / 2);
      const near = ([x, y]) => [bx + Math.sign(x - bx) * r, by + Math.sign(y - by) * r];
      path += "L" + near([ax, ay]).map(round) + "Q" + [bx, by, ...near(next)].map(round);
    }
  }
  return path;
}
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
  for (const list of [b.trunks, b.edges]) for (const e of list) {
    const { points } = e; // of this layout alone: moved in place
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const p of points) {
      p[0] += x;
      p[1] += y;
      x0 = Math.min(x0, p[0]); x1 = Math.max(x1, p[0]); y0 = Math.min(y0, p[1]); y1 = Math.max(y1, p[1]);
    }
    scene.edges.push({ e, points, x0, x1, y0, y1, key: e.from.key + ">" + (e.to ? e.to.key : "") });
  }
}

let method = null;
function start() {
  const F = prepare(method.function);
  const name = F.f.name;
  const row = M && M.methods.find((m) => m.parent === null && m.name === name);
  return { F, path: "", key: "r", row: row ? row.index : undefined, depth: 0, measured: row || null };
}

function rebuild() {
  scene = { nodes: [], boxes: [], edges: [], by: new Map(), w: 0, h: 0 };
  const I = start();
  whole = { I, block: buildBlock(I, I.F.f, true) };
  layoutBlock(whole.block, sizeItem);
  scene.w = whole.block.w;
  scene.h = whole.block.h;
  gather(whole.block, 0, 0, 0, null);
  for (const layer of ["boxes", "edges", "nodes", "distant"]) $(layer).replaceChildren();
  drawn.clear();
  distant = 0;
  drawMap();
  root.dataset.nodes = String(scene.nodes.length);
  root.dataset.boxes = String(scene.boxes.length);
  root.dataset.edges = String(scene.edges.filter((x) => x.e.to).length);
  if (picked && !scene.by.has(picked)) picked = null;
  refresh();
}

const shownNodes = (I, b) => b.nodes.filter((x) => !isFolded(I.F, x) && !isThrough(I.F, x));

// True for a box that the first view opens: a module made of modules, or control flow that is short or calls.
function isWorthOpening(it, n) {
  if (it.kind === "call") {
    const F = it.body.F;
    return F.nodes.some((y) => y.call !== undefined && y.in.length && pathOf(it.body, y.in[0]) && y.in[0] !== F.f.self);
  }
  const inside = (b) => b.nodes.reduce((s, x) => s + (x.call !== undefined && P.functions[x.call].self !== null ? 1e6 : isFolded(it.I.F, x) ? 0 : 1) + (x.blocks || []).reduce((t, y) => t + inside(y), 0), 0);
  const size = n.blocks.reduce((s, b) => s + inside(b), 0);
  return size <= 24 || size >= 1e6;
}

// Opens boxes from the outside in, while the number of nodes stays under `most`.
function openSome(most, all) {
  let level = [[start(), null]];
  let n = shownNodes(level[0][0], level[0][0].F.f).length;
  while (level.length) {
    const next = [];
    for (const [I, block] of level) {
      for (const x of shownNodes(I, block || I.F.f)) {
        const it = itemOf(I, x);
        if (!it.canOpen) continue;
        const inside = it.kind === "call" ? [[it.body, null]] : x.blocks.map((b) => [I, b]);
        const more = inside.reduce((s, [J, b]) => s + shownNodes(J, b || J.F.f).length, 0);
        if (n + more > most || !(all || isWorthOpening(it, x))) continue;
        n += more;
        opened.set(it.key, true);
        next.push(...inside);
      }
    }
    level = next;
  }
}

// -- Drawing -------------------------------------------------------------------------------------------------

const FAR = 0.3; // scale below which text is not drawn
const MANY = 1500; // nodes in sight from which far ones are drawn as a few paths
const canvas = $("canvas");
const world = $("world");
const drawn = new Map();
let view = { x: 0, y: 0, k: 1 };
let picked = null;
let hovered = null;
let asked = false;
let distant = 0; // the scale that the distant drawing was made for, or 0

function refresh() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

function nodeElement(it) {
  const g = svg("g", { class: "node c-" + it.cat + (it.kind === "io" ? " io" : "") + (it.missing ? " missing" : ""), "data-key": it.key,
    transform: `translate(${round(it.ax)} ${round(it.ay)})` });
  const isInput = it.kind === "io";
  g.append(svg("rect", { class: "body", width: it.w, height: it.h, rx: isInput ? 13 : 6 }));
  if (!isInput) g.append(svg("rect", { class: "side", width: 5, height: it.h, rx: 2.5 }));
  const room = it.w - (isInput ? 12 : 24) - (it.canOpen ? 18 : 0);
  g.append(svg("text", { class: "title", x: isInput ? it.w / 2 : 15, y: isInput ? 17.5 : 19.5, "text-anchor": isInput ? "middle" : "start" },
    cut(it.title, isInput ? INPUT : TITLE, room)));
  if (it.sub) g.append(svg("text", { class: "sub", x: 15, y: 35 }, cut(it.sub, SUB, it.w - 24)));
  putFlow(g, it);
  if (it.canOpen) g.append(svg("text", { class: "more", x: it.w - 18, y: 20 }, "+"), svg("rect", { class: "plus", x: it.w - 26, width: 26, height: 28 }));
  if (it.measured) {
    const wide = it.w - 30;
    g.append(svg("rect", { class: "heat-back", x: 15, y: it.h - 8, width: wide, height: 3, rx: 1.5 }));
    g.append(svg("rect", { class: "heat", x: 15, y: it.h - 8, width: Math.max(1, wide * Math.min(1, shareOf(it.measured))), height: 3, rx: 1.5 }));
  }
  const whole = it.title + (it.sub ? "\n" + it.sub : "") + (it.missing ? "\ncannot run here" : "");
  g.append(svg("title", {}, whole));
  return g;
}
// The shape of what leaves an item, where its edges begin.
function putFlow(g, it) {
  if (it.flow) g.append(svg("text", { class: "sub flow", x: it.w / 2 + 5, y: it.h + 12 }, cut(it.flow, SUB, 140)));
}
function boxElement(it) {
  const g = svg("g", { class: "box c-" + it.cat + (it.level % 2 ? " even" : ""), "data-key": it.key, transform: `translate(${round(it.ax)} ${round(it.ay)})` });
  g.append(svg("rect", { class: "body", width: it.w, height: it.h, rx: 8 }), svg("rect", { class: "head", width: it.w, height: HEAD, rx: 8 }));
  g.append(svg("text", { class: "less", x: 11, y: 20 }, "−"), svg("text", { class: "title", x: 28, y: 19 }, cut(it.title, TITLE, it.w - 36)));
  const sub = [it.sub, it.measured ? time(it.measured.total / it.measured.calls) + ", " + percent(shareOf(it.measured)) : ""].filter(Boolean).join("   ");
  const at = 28 + textWidth(it.title, TITLE) + 12;
  if (sub && at < it.w - 20) g.append(svg("text", { class: "sub", x: at, y: 19 }, cut(sub, SUB, it.w - at - 8)));
  putFlow(g, it);
  if (it.n.kind === "prim::If") it.blocks.forEach((b, i) => g.append(svg("text", { class: "sub", x: b.x + b.w / 2, y: HEAD + 10, "text-anchor": "middle" }, i ? "else" : "then")));
  for (let i = 1; i < it.blocks.length; i++) {
    const x = (it.blocks[i - 1].x + it.blocks[i - 1].w + it.blocks[i].x) / 2;
    g.append(svg("line", { x1: x, x2: x, y1: HEAD + 4, y2: it.h - 6 }));
  }
  return g;
}
const edgeElement = (e) => svg("path", { class: e.e.to ? "edge" : "edge trunk", d: pathOfEdge(e.points), "data-key": e.key });

// All nodes as one path per category, at least 1.5 pixels large, and all edges as one path: ten thousand of them are still fast.
function drawDistant() {
  if (distant && view.k < distant * 1.25 && view.k > distant / 1.25) return;
  distant = view.k;
  const least = 1.5 / view.k;
  const by = new Map();
  for (const it of scene.nodes) {
    const w = Math.max(it.w, least);
    const h = round(Math.max(it.h, least));
    if (!by.has(it.cat)) by.set(it.cat, []);
    by.get(it.cat).push(`M${round(it.ax + (it.w - w) / 2)} ${round(it.ay)}h${round(w)}v${h}h${-round(w)}z`);
  }
  const lines = scene.edges.map(({ points }) => "M" + points.map(([x, y]) => Math.round(x) + " " + Math.round(y)).join("L"));
  $("distant").replaceChildren(svg("path", { class: "edge", d: lines.join("") }), ...[...by].map(([cat, d]) => svg("path", { class: "dot c-" + cat, d: d.join("") })));
}

// Keys of the edges at the selected node and at the one under the pointer, with the trunks that they branch off.
function nearEdges() {
  const near = new Set();
  if (picked === null && hovered === null) return near;
  const isNear = (it) => it && (it.key === picked || it.key === hovered);
  for (const { e, key } of scene.edges) {
    if (!isNear(e.from) && !isNear(e.to)) continue;
    near.add(key);
    if (e.lane) near.add(e.from.key + ">");
  }
  return near;
}

function draw() {
  const size = canvas.getBoundingClientRect();
  world.setAttribute("transform", `translate(${round(view.x)} ${round(view.y)}) scale(${view.k.toPrecision(5)})`);
  const m = 120 / Math.max(view.k, 0.1);
  const x0 = -view.x / view.k - m;
  const y0 = -view.y / view.k - m;
  const x1 = (size.width - view.x) / view.k + m;
  const y1 = (size.height - view.y) / view.k + m;
  const inside = (it) => it.ax < x1 && it.ax + it.w > x0 && it.ay < y1 && it.ay + it.h > y0;
  const nodes = scene.nodes.filter(inside);
  const isDistant = view.k < FAR && nodes.length > MANY;
  canvas.classList.toggle("far", view.k < FAR);
  if (isDistant) drawDistant();
  else if (distant) { $("distant").replaceChildren(); distant = 0; }
  const near = nearEdges();
  const wanted = new Set();
  const show = (kind, key, make) => {
    const id = kind + key;
    wanted.add(id);
    if (drawn.has(id)) return;
    const e = make();
    drawn.set(id, e);
    $(kind).append(e);
  };
  for (const it of scene.boxes) if (inside(it)) show("boxes", it.key, () => boxElement(it));
  if (!isDistant) {
    for (const it of nodes) show("nodes", it.key, () => nodeElement(it));
    for (const e of scene.edges) if (e.x0 < x1 && e.x1 > x0 && e.y0 < y1 && e.y1 > y0) show("edges", e.key, () => edgeElement(e));
  } else if (picked !== null) {
    const it = scene.by.get(picked);
    if (it && !it.isOpen) show("nodes", it.key, () => nodeElement(it));
    for (const e of scene.edges) if (near.has(e.key)) show("edges", e.key, () => edgeElement(e));
  }
  for (const [id, e] of drawn) if (!wanted.has(id)) { e.remove(); drawn.delete(id); }
  for (const e of $("edges").children) e.classList.toggle("near", near.has(e.dataset.key));
  for (const layer of ["boxes", "nodes"]) for (const e of $(layer).children) e.classList.toggle("picked", e.dataset.key === picked);
  $("zoom").textContent = view.k < 0.01 ? "<1%" : Math.round(100 * view.k) + "%";
  drawMapView(size);
  root.dataset.drawn = String(isDistant ? nodes.length : $("nodes").children.length);
}

// -- The map: the whole graph in a corner, or a strip if it is long ----------------------------

let map = { k: 1, x: 0, y: 0, w: 130, h: 130 };
function drawMap() {
  const size = canvas.getBoundingClientRect();
  const ratio = scene.h / Math.max(1, scene.w);
  const side = size.width < 600 ? 84 : 130;
  const [w, h] = ratio > 5 ? [34, Math.max(side, size.height - 24)] : ratio < 0.2 ? [Math.min(420, Math.max(side, size.width / 3)), 50] : [side, side];
  const kx = (w - 8) / Math.max(1, scene.w);
  const ky = (h - 8) / Math.max(1, scene.h);
  // A strip is stretched in width if a node would be too thin to be seen.
  map = ratio > 5 || ratio < 0.2 ? { w, h, kx, ky } : { w, h, kx: Math.min(kx, ky), ky: Math.min(kx, ky) };
  map.x = (w - scene.w * map.kx) / 2;
  map.y = (h - scene.h * map.ky) / 2;
  $("map").style.width = w + "px";
  $("map").style.height = h + "px";
  const dots = new Set();
  for (const n of scene.nodes) {
    const dw = Math.max(1.5, Math.round(n.w * map.kx));
    const dh = Math.max(1.5, Math.round(n.h * map.ky));
    dots.add(`M${Math.round(n.ax * map.kx + map.x)} ${Math.round(n.ay * map.ky + map.y)}h${dw}v${dh}h${-dw}z`);
  }
  $("map-nodes").setAttribute("d", [...dots].join(""));
}
function drawMapView(size) {
  const box = { x: (-view.x / view.k) * map.kx + map.x, y: (-view.y / view.k) * map.ky + map.y, width: (size.width / view.k) * map.kx, height: (size.height / view.k) * map.ky };
  const isAll = box.x <= map.x && box.y <= map.y && box.x + box.width >= map.w - map.x && box.y + box.height >= map.h - map.y;
  $("map").toggleAttribute("hidden", isAll);
  box.height = Math.max(3, box.height);
  box.width = Math.max(3, box.width);
  for (const k in box) $("map-view").setAttribute(k, round(box[k]));
}
function mapTo(ev) {
  const size = canvas.getBoundingClientRect();
  const at = $("map").getBoundingClientRect();
  view.x = size.width / 2 - ((ev.clientX - at.left - map.x) / map.kx) * view.k;
  view.y = size.height / 2 - ((ev.clientY - at.top - map.y) / map.ky) * view.k;
  refresh();
}
$("map").addEventListener("pointerdown", (ev) => { $("map").setPointerCapture(ev.pointerId); mapTo(ev); });
$("map").addEventListener("pointermove", (ev) => { if ($("map").hasPointerCapture(ev.pointerId)) mapTo(ev); });

// -- Navigation ---------------------------------------------------------------------------------

const MARGIN = 24;
function scaleToFit(size) {
  return Math.min((size.width - 2 * MARGIN) / Math.max(1, scene.w), (size.height - 2 * MARGIN) / Math.max(1, scene.h));
}
function zoomAt(x, y, by) {
  const least = Math.min(0.05, 0.8 * scaleToFit(canvas.getBoundingClientRect()));
  const k = Math.min(4, Math.max(least, view.k * by));
  view = { k, x: x - ((x - view.x) * k) / view.k, y: y - ((y - view.y) * k) / view.k };
  refresh();
}
function zoomMiddle(by) {
  const size = canvas.getBoundingClientRect();
  zoomAt(size.width / 2, size.height / 2, by);
}
// Shows everything, centred.
function fit() {
  const size = canvas.getBoundingClientRect();
  const k = Math.min(1.25, scaleToFit(size));
  view = { k, x: (size.width - scene.w * k) / 2, y: (size.height - scene.h * k) / 2 };
  refresh();
}
// The first view: everything if that is readable, otherwise the inputs, at a readable size.
function fitTop() {
  const size = canvas.getBoundingClientRect();
  const all = scaleToFit(size);
  if (all >= 0.75) { fit(); return; }
  const width = size.width - (map.h > 130 ? map.w + 12 : 0); // beside the map
  const k = Math.max(0.75, Math.min(width > 1800 ? 1.2 : 1, (width - 2 * MARGIN) / Math.max(1, scene.w)));
  const inputs = whole.block.items.filter((it) => it.kind === "io" && !it.isEnd);
  const at = inputs.length ? inputs : whole.block.items.slice(0, 1);
  view = { k, x: (width - scene.w * k) / 2, y: MARGIN };
  if (scene.w * k > width - 2 * MARGIN && at.length) {
    const [l, r] = [Math.min(...at.map((it) => it.ax)), Math.max(...at.map((it) => it.ax + it.w))];
    const centre = (r - l) * k < width ? (l + r) / 2 : at[0].ax + at[0].w / 2;
    view.x = Math.max(width - MARGIN - scene.w * k, Math.min(MARGIN, width / 2 - centre * k));
    view.y = Math.min(MARGIN, MARGIN + 40 - at[0].ay * k);
  }
  refresh();
}
function fitEnd() {
  const end = whole.block.items[whole.block.items.length - 1];
  if (!end) return;
  fitTop();
  const size = canvas.getBoundingClientRect();
  if (scene.h * view.k > size.height) view.y = size.height - MARGIN - scene.h * view.k;
  if (scene.w * view.k > size.width) view.x = size.width / 2 - (end.ax + end.w / 2) * view.k;
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
function centreOn(it) {
  const size = canvas.getBoundingClientRect();
  view.k = Math.max(view.k, 0.75);
  view.x = size.width / 2 - (it.ax + it.w / 2) * view.k;
  view.y = size.height / 2 - (it.ay + Math.min(it.h, 200) / 2) * view.k;
  refresh();
}

// Selects an item, or nothing; `move`: also scrolls to it. The panel opens at the first selection.
function pick(key, move) {
  picked = key;
  const it = key === null ? null : scene.by.get(key);
  if (it && $("panel").hidden) showPanel(true);
  showDetails(it);
  if (it) {
    showSource(it);
    $("live").textContent = it.title + (it.sub ? ", " + it.sub : "");
    const size = canvas.getBoundingClientRect();
    const x = it.ax * view.k + view.x;
    const y = it.ay * view.k + view.y;
    if (move || (!it.isOpen && (x > size.width - 20 || y > size.height - 20))) reveal(it);
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

// The item at a pointer event's target; among distant nodes, the nearest.
function itemAt(target, x, y) {
  const g = target.closest("[data-key]");
  if (g && g.parentNode.id !== "edges") return scene.by.get(g.dataset.key) || null;
  if (!distant) return null;
  const size = canvas.getBoundingClientRect();
  const [wx, wy] = [(x - size.left - view.x) / view.k, (y - size.top - view.y) / view.k];
  let [best, near] = [null, 12 / view.k];
  for (const it of scene.nodes) {
    const d = Math.hypot(Math.max(0, it.ax - wx, wx - it.ax - it.w), Math.max(0, it.ay - wy, wy - it.ay - it.h));
    if (d < near) [best, near] = [it, d];
  }
  return best;
}

let drag = null;
const fingers = new Map();
canvas.addEventListener("pointerdown", (ev) => {
  if (ev.button !== 0 && ev.button !== 1) return;
  fingers.set(ev.pointerId, [ev.clientX, ev.clientY]);
  drag = { x: ev.clientX, y: ev.clientY, view: { ...view }, moved: fingers.size > 1, target: ev.target };
  canvas.setPointerCapture(ev.pointerId);
});
canvas.addEventListener("pointermove", (ev) => {
  if (!drag) {
    const it = itemAt(ev.target, ev.clientX, ev.clientY);
    const key = it && !it.isOpen ? it.key : null;
    if (key !== hovered) { hovered = key; refresh(); }
    return;
  }
  const before = [...fingers.values()];
  if (fingers.has(ev.pointerId)) fingers.set(ev.pointerId, [ev.clientX, ev.clientY]);
  if (fingers.size === 2) {
    const after = [...fingers.values()];
    const spread = ([[ax, ay], [bx, by]]) => Math.max(1, Math.hypot(ax - bx, ay - by));
    const size = canvas.getBoundingClientRect();
    view.x += (after[0][0] + after[1][0] - before[0][0] - before[1][0]) / 2;
    view.y += (after[0][1] + after[1][1] - before[0][1] - before[1][1]) / 2;
    zoomAt((after[0][0] + after[1][0]) / 2 - size.left, (after[0][1] + after[1][1]) / 2 - size.top, spread(after) / spread(before));
    return;
  }
  const dx = ev.clientX - drag.x;
  const dy = ev.clientY - drag.y;
  if (!drag.moved && Math.hypot(dx, dy) < 4) return;
  drag.moved = true;
  canvas.classList.add("drag");
  view.x = drag.view.x + dx;
  view.y = drag.view.y + dy;
  refresh();
});
function release(ev) {
  fingers.delete(ev.pointerId);
  const was = drag;
  drag = null;
  canvas.classList.remove("drag");
  if (fingers.size) {
    const [x, y] = [...fingers.values()][0];
    drag = { x, y, view: { ...view }, moved: true, target: canvas };
  }
  return was;
}
canvas.addEventListener("pointerup", (ev) => {
  const was = release(ev);
  if (!was || was.moved) return;
  const it = itemAt(was.target, ev.clientX, ev.clientY);
  const mark = was.target.classList;
  if (it && it.canOpen && (mark.contains("plus") || (it.isOpen && mark.contains("head") && it.key === picked))) toggle(it);
  else pick(it && !(it.isOpen && mark.contains("body")) ? it.key : null, false);
});
canvas.addEventListener("pointercancel", release);
canvas.addEventListener("pointerleave", () => { if (hovered !== null) { hovered = null; refresh(); } });
canvas.addEventListener("dblclick", (ev) => {
  if (ev.target.classList.contains("plus")) return;
  const it = picked !== null ? scene.by.get(picked) : null;
  if (it && it.canOpen && !it.isOpen) toggle(it);
  else if (!it) zoomAt(ev.offsetX, ev.offsetY, 1.6);
});
canvas.addEventListener("wheel", (ev) => {
  ev.preventDefault();
  const size = canvas.getBoundingClientRect();
  const step = ev.deltaMode === 1 ? 30 : ev.deltaMode === 2 ? 300 : 1;
  if (ev.shiftKey) {
    view.x -= (ev.deltaX || ev.deltaY) * step;
    refresh();
    return;
  }
  zoomAt(ev.clientX - size.left, ev.clientY - size.top, Math.exp(-Math.max(-240, Math.min(240, ev.deltaY * step)) * (ev.ctrlKey ? 0.008 : 0.0018)));
}, { passive: false });

// -- Keys ------------------------------------------------------------------------------------------------------

function neighbour(it, key) {
  const all = scene.edges.map((e) => e.e).filter((e) => e.to);
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
  } else return;
  ev.preventDefault();
});
const keys = {
  "/": () => $("find").focus(), "+": () => zoomMiddle(1.25), "=": () => zoomMiddle(1.25), "-": () => zoomMiddle(0.8), 0: fit, e: openAll, c: closeAll,
  s: () => showPanel($("panel").hidden), n: () => go(hit + 1), N: () => go(hit - 1), Home: fitTop, End: fitEnd,
  PageDown: () => { view.y -= 0.8 * canvas.clientHeight; refresh(); }, PageUp: () => { view.y += 0.8 * canvas.clientHeight; refresh(); },
  Escape: () => { if (picked !== null) pick(null, false); else showPanel(false); },
};
addEventListener("keydown", (ev) => {
  if (ev.ctrlKey || ev.metaKey || ev.altKey || /INPUT|SELECT|TEXTAREA/.test(ev.target.tagName) || $("graph").hidden) return;
  if (/^(Home|End|Page)/.test(ev.key) && ev.target.closest && ev.target.closest("#panel")) return;
  if (!Object.hasOwn(keys, ev.key)) return;
  ev.preventDefault();
  keys[ev.key]();
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
new ResizeObserver(() => { drawMap(); refresh(); }).observe(canvas);
