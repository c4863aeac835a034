// page.js: the tabs, the choice of a method, and the first view.

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
  hits = [];
  picked = null;
  openSome(150, false);
  rebuild();
  fitTop();
  overview();
  const places = prepare(method.function).nodes.filter((n) => n.at).map((n) => n.at);
  const [first] = places.find((p) => P.modules && p[0]) || places[0] || []; // an exported program's author comes first
  if (places.length) openSource(first, places.reduce((l, p) => (p[0] === first ? Math.min(l, p[1]) : l), Infinity));
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
  const parameters = elements(D.weights.filter((w) => w.role !== "buffer"));
  const size = [...D.weights, ...P.constants].reduce((s, w) => s + w.bytes, 0);
  const places = P.functions.reduce((s, _, i) => s + prepare(i).nodes.filter((n) => n.op !== undefined || n.unknown).length, 0);
  const totals = [[parameters || elements([...D.weights, ...P.constants]), parameters ? "parameters" : "elements"], [null, "of weights"], [P.methods.length, P.methods.length === 1 ? "method" : "methods"],
    [P.functions.length, P.functions.length === 1 ? "function" : "functions"], [places, "operators"]];
  totals[1][0] = bytes(size);
  for (const [n, what] of totals) if (n && n !== "0 B") $("totals").append(el("li", {}, el("b", {}, typeof n === "number" ? (n >= 1e6 ? amount(n, ["", "k", "M", "G"], 1000) : count(n)) : n), " " + what));
  if (M) $("totals").append(el("li", {}, el("b", {}, time(M.seconds / M.calls)), " a call"));
  P.methods.forEach((m, i) => $("method").append(el("option", { value: i }, m.name)));
  P.sources.forEach((s, i) => $("sources").append(el("option", { value: i }, s.name)));
  if (!P.sources.length) $("source").append(el("p", { class: "empty" }, "The archive has no source."));
}

// #tab=weights&method=step&open=all&find=conv&panel: the parameters of a link.
function obey() {
  const q = new URLSearchParams(location.hash.slice(1));
  const m = P.methods.findIndex((x) => x.name === q.get("method"));
  if (m >= 0) { $("method").value = String(m); useMethod(m); }
  if (q.get("open") === "all") openAll();
  if (q.get("open") === "none") closeAll();
  if (q.has("panel")) showPanel(true);
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
