// layout.js: a place for every item of a block, by Sugiyama's method: layers by the longest path, order in a
// layer by medians, centres by Brandes and Köpf. Edges over many layers run in lanes beside them, so that ten
// thousand layers cost no more than their items. The file does not use the document: tests run it alone.
// layoutBlock({items, edges}, size): `size(item)` sets an item's w and h. Afterwards items have x, y, cx,
// bottom and layer, edges have `points` ([x, y, true for a straight line to the point, otherwise a curve]),
// and the block has w, h and `trunks`: a lane is one trunk, from which the edges that use it branch off.
// Items are in the order of the program; all edges follow it.

const GAP_X = 22;
const GAP_Y = 34;
const LANE = 9; // between two lanes
const MOST_LEAN = 500; // how far sideways a curve may go in one gap; beyond, edges of one item share a horizontal line
const MOST_SINK = 60; // an item beside one that is higher by more stands at the top of its layer, below what leads to it
const MOST_SPAN = 20; // layers that an edge passes between the items; beyond, it takes a lane
const MOST_DUMMIES = 10000;

// Longest path from the top. Items without a path from an input move down to just above their first use; so do chains of them.
function layersOf(items, edges) {
  for (const it of items) Object.assign(it, { layer: 0, up: [], down: [], isRooted: it.kind === "io" && !it.isEnd });
  for (const e of edges) { e.from.down.push(e.to); e.to.up.push(e.from); }
  for (const it of items) for (const u of it.up) {
    it.layer = Math.max(it.layer, u.layer + 1);
    it.isRooted = it.isRooted || u.isRooted;
  }
  const last = items.reduce((l, it) => Math.max(l, it.layer), 0);
  for (let i = items.length - 1; i >= 0; i--) {
    const it = items[i];
    if (it.isEnd) it.layer = last;
    else if (!it.isRooted && it.down.length) it.layer = it.down.reduce((l, d) => Math.min(l, d.layer), Infinity) - 1;
  }
  let rows = [];
  const least = items.reduce((l, it) => Math.min(l, it.layer), 0);
  for (const it of items) (rows[it.layer - least] = rows[it.layer - least] || []).push(it);
  rows = rows.filter(Boolean);
  rows.forEach((row, i) => { for (const it of row) it.layer = i; });
  return rows;
}

const NONE = [];

// Puts a dummy into each layer that an edge passes; edges from one item share theirs. Returns the edges that span too many layers.
function addDummies(rows, edges) {
  const reach = new Map();
  for (const e of edges) reach.set(e.from, Math.max(reach.get(e.from) || 0, e.to.layer - e.from.layer));
  let most = MOST_SPAN;
  const cost = () => { let n = 0; for (const r of reach.values()) n += Math.min(r, most) - 1; return n; };
  while (most > 1 && cost() > MOST_DUMMIES) most >>= 1;
  for (const row of rows) for (const c of row) { c.ups = []; c.downs = []; c.buses = null; }
  const link = (a, z) => { a.downs.push(z); z.ups.push(a); };
  const trunks = new Map();
  const far = [];
  for (const e of edges) {
    const span = e.to.layer - e.from.layer;
    e.via = [];
    if (span > most) { far.push(e); continue; }
    const trunk = trunks.get(e.from) || [];
    trunks.set(e.from, trunk);
    while (trunk.length < span - 1) {
      const d = { dummy: true, w: 8, h: 0, layer: e.from.layer + trunk.length + 1, ups: [], downs: [] };
      link(trunk.length ? trunk[trunk.length - 1] : e.from, d);
      rows[d.layer].push(d);
      trunk.push(d);
    }
    e.via = span > 1 ? trunk.slice(0, span - 1) : NONE;
    link(span > 1 ? trunk[span - 2] : e.from, e.to);
  }
  return far;
}

function order(rows) {
  rows.forEach((row) => row.forEach((c, i) => { c.pos = i; }));
  const middle = (list) => {
    if (!list.length) return -1;
    if (list.length === 1) return list[0].pos;
    const p = list.map((x) => x.pos).sort((x, z) => x - z);
    const m = p.length >> 1;
    return p.length % 2 ? p[m] : (p[m - 1] + p[m]) / 2;
  };
  let moved = true;
  const sort = (row, side) => {
    let isSorted = true;
    for (let i = 0; i < row.length; i++) {
      const m = middle(row[i][side]);
      row[i].rank = m < 0 ? row[i].pos : m;
      if (i && row[i].rank < row[i - 1].rank) isSorted = false;
    }
    if (isSorted) return;
    row.sort((x, z) => x.rank - z.rank || x.pos - z.pos);
    for (let i = 0; i < row.length; i++) row[i].pos = i;
    moved = true;
  };
  for (let k = 0; k < 6 && moved; k++) {
    moved = false;
    for (let i = 1; i < rows.length; i++) if (rows[i].length > 1) sort(rows[i], "ups");
    for (let i = rows.length - 2; i >= 0; i--) if (rows[i].length > 1) sort(rows[i], "downs");
  }
}

// -- Centres: Brandes and Köpf, "Fast and simple horizontal coordinate assignment" -----------------------------

const gapOf = (a, z) => (a.w + z.w) / 2 + (a.dummy && z.dummy ? 10 : GAP_X);

// Marks links that cross a trunk (a link between dummies): these are not aligned, so that trunks are straight.
function markConflicts(rows) {
  for (let i = 1; i < rows.length; i++) {
    const row = rows[i];
    let first = 0;
    let scanned = 0;
    row.forEach((c, l) => {
      const inner = c.dummy ? c.ups.find((u) => u.dummy) : null;
      if (!inner && l < row.length - 1) return;
      const end = inner ? inner.pos : rows[i - 1].length;
      for (; scanned <= l; scanned++) {
        const x = row[scanned];
        for (const u of x.ups) if ((u.pos < first || u.pos > end) && !(u.dummy && x.dummy)) (x.crossed = x.crossed || new Set()).add(u);
      }
      first = end;
    });
  }
}

// Chains cells to their median neighbours, above or below, from the left or the right.  root[id] is the head of a cell's chain.
function chainsOf(rows, n, isDown, isRight) {
  const root = Int32Array.from({ length: n }, (_, i) => i);
  const next = Int32Array.from(root);
  const at = (c) => (isRight ? rows[c.layer].length - 1 - c.pos : c.pos);
  for (let r = 0; r < rows.length; r++) {
    const row = rows[isDown ? r : rows.length - 1 - r];
    let last = -1;
    for (let k = 0; k < row.length; k++) {
      const v = row[isRight ? row.length - 1 - k : k];
      const near = isDown ? v.ups : v.downs;
      if (!near.length) continue;
      const sorted = near.length > 1 ? [...near].sort((a, b) => at(a) - at(b)) : near;
      const m = (sorted.length - 1) / 2;
      for (let i = Math.floor(m); i <= Math.ceil(m); i++) {
        const w = sorted[i];
        const [lower, upper] = isDown ? [v, w] : [w, v];
        if (next[v.id] !== v.id || last >= at(w) || (lower.crossed && lower.crossed.has(upper))) continue;
        next[w.id] = v.id;
        next[v.id] = root[v.id] = root[w.id];
        last = at(w);
      }
    }
  }
  return root;
}

// Places the chains as far left as their order allows, then each as far right as its right neighbours allow.
function compact(rows, cells, root, isRight) {
  const n = cells.length;
  // Constraints "chain b right of chain a by a gap": those of chain a are start[a] to start[a + 1].
  const start = new Int32Array(n + 1);
  const before = new Int32Array(n);
  const each = (use) => {
    for (const row of rows) for (let k = 1; k < row.length; k++) {
      const u = isRight ? row[row.length - k] : row[k - 1];
      const v = isRight ? row[row.length - 1 - k] : row[k];
      use(root[u.id], root[v.id], u, v);
    }
  };
  each((a, b) => { start[a + 1]++; before[b]++; });
  for (let i = 0; i < n; i++) start[i + 1] += start[i];
  const fill = start.slice();
  const after = new Int32Array(start[n]);
  const gap = new Float64Array(start[n]);
  each((a, b, u, v) => { gap[fill[a]] = gapOf(u, v); after[fill[a]++] = b; });
  const x = new Float64Array(n);
  const sorted = [];
  for (let i = 0; i < n; i++) if (root[i] === i && !before[i]) sorted.push(i);
  for (let k = 0; k < sorted.length; k++) {
    const a = sorted[k];
    for (let i = start[a]; i < start[a + 1]; i++) {
      x[after[i]] = Math.max(x[after[i]], x[a] + gap[i]);
      if (--before[after[i]] === 0) sorted.push(after[i]);
    }
  }
  for (let k = sorted.length - 1; k >= 0; k--) {
    const a = sorted[k];
    let room = Infinity;
    for (let i = start[a]; i < start[a + 1]; i++) room = Math.min(room, x[after[i]] - gap[i]);
    if (room !== Infinity) x[a] = Math.max(x[a], room);
  }
  return Float64Array.from(root, (r) => (isRight ? -x[r] : x[r]));
}

// The median of four assignments, from above and below, from the left and the right; without those that are
// much wider than the narrowest: along a long graph they drift sideways, a step with each edge that is
// passed.
function placeRows(rows) {
  const cells = rows.flat();
  cells.forEach((c, i) => { c.id = i; c.crossed = null; });
  markConflicts(rows);
  const all = [];
  for (const isDown of [true, false]) for (const isRight of [false, true]) {
    const xs = compact(rows, cells, chainsOf(rows, cells.length, isDown, isRight), isRight);
    let [left, right] = [Infinity, -Infinity];
    cells.forEach((c, i) => { left = Math.min(left, xs[i] - c.w / 2); right = Math.max(right, xs[i] + c.w / 2); });
    all.push({ xs, left, right, isRight });
  }
  const least = all.reduce((a, b) => (b.right - b.left < a.right - a.left ? b : a));
  const good = all.filter((a) => a.right - a.left <= 1.4 * (least.right - least.left));
  for (const a of good) a.shift = a.isRight ? least.right - a.right : least.left - a.left;
  cells.forEach((c, i) => {
    const x = good.map((a) => a.xs[i] + a.shift).sort((a, b) => a - b);
    c.cx = (x[(x.length - 1) >> 1] + x[x.length >> 1]) / 2;
  });
}

// A lane for each item with far edges: a column beside all layers that it passes, left or right, whichever is
// nearer. Short ones first, so that they are inside. `slots[i]` counts the turns between layers i and i + 1.
function addLanes(rows, far, slots) {
  const left = rows.map((row) => row.reduce((x, c) => Math.min(x, c.cx - c.w / 2), Infinity));
  const right = rows.map((row) => row.reduce((x, c) => Math.max(x, c.cx + c.w / 2), -Infinity));
  const lanes = new Map();
  for (const e of far) {
    const lane = lanes.get(e.from) || { from: e.from, edges: [], end: 0 };
    lane.edges.push(e);
    lane.end = Math.max(lane.end, e.to.layer);
    lanes.set(e.from, lane);
  }
  const sorted = [...lanes.values()].sort((a, b) => a.end - a.from.layer - (b.end - b.from.layer));
  for (const lane of sorted) {
    let [l, r] = [Infinity, -Infinity];
    for (let i = lane.from.layer; i <= lane.end; i++) { l = Math.min(l, left[i]); r = Math.max(r, right[i]); }
    const middle = lane.edges.reduce((s, e) => s + e.to.cx, lane.from.cx) / (lane.edges.length + 1);
    const isLeft = middle - l < r - middle;
    lane.x = isLeft ? l - LANE - 5 : r + LANE + 5;
    const side = isLeft ? left : right;
    for (let i = lane.from.layer; i <= lane.end; i++) side[i] = isLeft ? lane.x + 5 : lane.x - 5;
    lane.slot = slots[lane.from.layer]++;
    for (const e of lane.edges) { e.lane = lane; e.slot = slots[e.to.layer - 1]++; }
  }
  return sorted;
}

// A horizontal line for the links of one cell that lean too far: of the cell with more of them, above or below the gap.
function addBuses(rows, slots) {
  rows.forEach((row, i) => {
    const taken = new Map();
    for (const c of row) for (const d of c.downs) {
      if (Math.abs(c.cx - d.cx) <= MOST_LEAN) continue;
      const hub = c.downs.length >= d.ups.length ? c : d;
      if (!taken.has(hub)) taken.set(hub, slots[i]++);
      (c.buses = c.buses || new Map()).set(d, taken.get(hub));
    }
  });
}

// Heights: a gap grows with the lines in it and with how far its edges lean.
function stack(rows, slots) {
  let y = 0;
  rows.forEach((row, i) => {
    const h = row.reduce((most, c) => Math.max(most, c.h), 0);
    let lean = 0;
    for (const c of row) {
      c.y = c.dummy || h - c.h > MOST_SINK ? y : y + (h - c.h) / 2;
      c.bottom = c.dummy ? y + h : c.y + c.h;
      c.x = c.cx - c.w / 2;
      for (const d of c.downs) lean = Math.max(lean, Math.abs(d.cx - c.cx));
    }
    row.top = y;
    row.bottom = y + h;
    y += h + GAP_Y + Math.min(MOST_LEAN, lean) / 25 + Math.min(60, slots[i] * 5);
  });
  return rows.length ? rows[rows.length - 1].bottom : 0;
}

const lineBelow = (row, slot) => row.bottom + 8 + (slot % 12) * 5;
const TURN = 7; // where a branch leaves its trunk
function trunkOf(lane, rows) {
  const { from, x, edges } = lane;
  const y = lineBelow(rows[from.layer], lane.slot);
  const end = edges.reduce((most, e) => Math.max(most, lineBelow(rows[e.to.layer - 1], e.slot)), y);
  return { from, to: null, points: [[from.cx, from.bottom, true], [from.cx, y, true], [x, y, true], [x, end - TURN, true]] };
}
function pointsOf(e, rows) {
  const { from, to, lane } = e;
  if (lane) {
    const y = lineBelow(rows[to.layer - 1], e.slot);
    return [[lane.x, y - TURN, true], [lane.x, y, true], [to.cx, y, true], [to.cx, to.y, true]];
  }
  const points = [[from.cx, from.bottom, true]];
  // Curves stay between layers: within one, beside higher items, an edge goes straight down.
  if (from.bottom < rows[from.layer].bottom) points.push([from.cx, rows[from.layer].bottom, true]);
  let last = from;
  for (const d of [...e.via, to]) {
    const slot = last.buses && last.buses.get(d);
    if (slot !== undefined && slot !== null) {
      const y = lineBelow(rows[last.layer], slot);
      points.push([last.cx, y, true], [d.cx, y, true], [d.cx, d.y, true]);
    } else {
      points.push([d.cx, rows[d.layer].top, false]);
      if (d.y > rows[d.layer].top) points.push([d.cx, d.y, true]);
    }
    if (d.dummy) points.push([d.cx, d.bottom, true]);
    last = d;
  }
  return points;
}

function layoutBlock(b, size) {
  for (const it of b.items) size(it);
  const rows = layersOf(b.items, b.edges);
  const far = addDummies(rows, b.edges);
  order(rows);
  placeRows(rows);
  const slots = rows.map(() => 0);
  const lanes = addLanes(rows, far, slots);
  addBuses(rows, slots);
  b.h = stack(rows, slots);
  let [left, right] = [Infinity, -Infinity];
  for (const row of rows) for (const c of row) { left = Math.min(left, c.x); right = Math.max(right, c.x + c.w); }
  for (const lane of lanes) { left = Math.min(left, lane.x - 5); right = Math.max(right, lane.x + 5); }
  for (const row of rows) for (const c of row) { c.x -= left; c.cx -= left; }
  for (const lane of lanes) lane.x -= left;
  b.w = Math.max(0, right - left);
  for (const e of b.edges) e.points = pointsOf(e, rows);
  b.trunks = lanes.map((lane) => trunkOf(lane, rows));
}
