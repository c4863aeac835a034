// export.js: the graph as an SVG or PNG file.  Elements are those of the screen (nodeElement, boxElement, edgeElement); their
// computed styles become attributes, because other programs read neither variables nor this page's style sheet.

const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-weight", "opacity", "rx"];
const PLAIN = { "fill-opacity": "1", "stroke-dasharray": "none", opacity: "1", "font-weight": "400", rx: "auto" };

// Styles of elements by kind, computed once per kind.
function styler() {
  const known = new Map();
  const probe = svg("g", {});
  $("nodes").append(probe);
  const of = (e, key, isText) => {
    if (known.has(key)) return known.get(key);
    const style = getComputedStyle(e);
    const out = {};
    for (const k of STYLES) {
      const v = style.getPropertyValue(k);
      if (v && v !== PLAIN[k] && (isText || !k.startsWith("font")) && !(isText && k.startsWith("stroke"))) out[k] = v;
    }
    if (isText) delete out.rx;
    if (out.stroke === "none") for (const k of ["stroke", "stroke-width", "stroke-dasharray"]) delete out[k];
    known.set(key, out);
    return out;
  };
  return {
    // Writes the styles of the elements of `g` as attributes.
    dress(g) {
      const kind = g.getAttribute("class");
      const all = [...g.querySelectorAll("*"), ...(g.tagName === "path" ? [g] : [])].filter((e) => e.tagName !== "title");
      if (!all.every((e) => known.has(kind + "|" + e.tagName + "." + e.getAttribute("class")))) probe.replaceChildren(g);
      for (const e of all) {
        const look = of(e, kind + "|" + e.tagName + "." + e.getAttribute("class"), e.tagName === "text");
        for (const k in look) if (k !== "rx" || e.tagName === "rect") e.setAttribute(k, look[k]);
      }
      for (const e of all) e.removeAttribute("class");
      g.removeAttribute("class");
      g.removeAttribute("data-key");
      g.remove();
      return g;
    },
    end() { probe.remove(); },
  };
}

// The whole scene as a separate element.
function picture() {
  const wasFar = canvas.classList.contains("far");
  canvas.classList.remove("far");
  const s = styler();
  const [w, h] = [Math.ceil(scene.w + 2 * MARGIN), Math.ceil(scene.h + 2 * MARGIN)];
  const out = svg("svg", { xmlns: SVG, width: w, height: h, viewBox: `0 0 ${w} ${h}`, "font-family": family.replace(/"/g, "'") });
  out.append(svg("title", {}, D.file + ": " + method.name), svg("rect", { width: w, height: h, fill: getComputedStyle(canvas).backgroundColor }));
  const tip = svg("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" });
  const sample = s.dress(svg("path", { class: "edge", d: "M0 0" }));
  tip.append(svg("path", { d: "M0 .6 7.4 4 0 7.4Z", fill: sample.getAttribute("stroke") }));
  const defs = svg("defs", {});
  defs.append(tip);
  const plane = svg("g", { transform: `translate(${MARGIN} ${MARGIN})` });
  for (const it of scene.boxes) plane.append(s.dress(boxElement(it)));
  for (const e of scene.edges) {
    const line = s.dress(edgeElement(e));
    if (e.e.to) line.setAttribute("marker-end", "url(#tip)");
    plane.append(line);
  }
  for (const it of scene.nodes) plane.append(s.dress(nodeElement(it)));
  s.end();
  for (const e of plane.querySelectorAll("rect[fill='rgba(0, 0, 0, 0)']")) e.remove();
  out.append(defs, plane);
  canvas.classList.toggle("far", wasFar);
  return { text: new XMLSerializer().serializeToString(out), w, h };
}

function save(blob, kind) {
  const url = URL.createObjectURL(blob);
  const name = D.file.replace(/\.\w+$/, "") + (method.name === "forward" ? "" : "." + method.name) + "." + kind;
  el("a", { download: name, href: url }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

// Browsers refuse larger canvases: a long graph is scaled down, with a message.
const MOST_SIDE = 16000;
const MOST_PIXELS = 100e6;
function scaleOfPicture(w, h) {
  return Math.min(2, MOST_SIDE / w, MOST_SIDE / h, Math.sqrt(MOST_PIXELS / (w * h)));
}
async function pixels(text, w, h, k) {
  const url = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const image = new Image(w, h);
  image.setAttribute("src", url);
  await image.decode();
  const c = el("canvas", { width: Math.max(1, Math.floor(w * k)), height: Math.max(1, Math.floor(h * k)) });
  const ink = c.getContext("2d");
  ink.scale(k, k);
  ink.drawImage(image, 0, 0, w, h);
  URL.revokeObjectURL(url);
  return new Promise((done) => c.toBlob(done, "image/png"));
}
function note(text) {
  $("note").textContent = text;
  $("note").hidden = !text;
  clearTimeout(note.timer);
  note.timer = setTimeout(() => { $("note").hidden = true; }, 8000);
}
function saveSvg() { save(new Blob([picture().text], { type: "image/svg+xml" }), "svg"); }
async function savePng() {
  const { text, w, h } = picture();
  const k = scaleOfPicture(w, h);
  const blob = await pixels(text, w, h, k).catch(() => null);
  if (!blob) { note("This browser cannot draw so large a picture; SVG holds all of it."); return; }
  if (k < 0.5) note(`The graph is too long for a PNG in full size: this one is at ${k < 0.01 ? "less than 1" : Math.round(100 * k)} %. SVG holds all of it.`);
  save(blob, "png");
}
$("save-svg").onclick = saveSvg;
$("save-png").onclick = savePng;
