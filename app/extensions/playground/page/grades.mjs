/** Passages on the axis of their scores, between the thresholds that decided the action. */

import { h, link, put, setVars } from "./dom.mjs";
import { score, t } from "./words.mjs";

const LANES = 4;
const APART = 0.018; // of the width: dots nearer to each other stand in different lanes

/**
 * The plot and, below it, the passage that is pointed at; `bounds` null: nothing was decided. The
 * first `seen` passages stand already, the others drop. {plot, field, dots, lines, legend, at}
 */
export function field(passages, bounds, seen = passages.length) {
  const [least, most] = range(passages, bounds);
  const at = (value) => (value - least) / (most - least);
  const pointed = h("p", { class: "pointed soft" }, t("gradesHint"));
  const lanes = [];
  const dots = passages.map((passage, index) => {
    const made = dot(passage, at(passage.score), lane(lanes, at(passage.score)), kindOf(passage, bounds), pointed);
    made.tabIndex = index ? -1 : 0;
    if (index >= seen) {
      made.classList.add("drops");
      setVars(made, { after: index - seen });
    }
    return { made, passage };
  });
  const lines = bounds ? Object.fromEntries(["lower", "upper"].map((name) => [name, h("div", { class: "bound", vars: { at: at(bounds[name]) } })])) : {};
  const box = h("div", { class: bounds ? "field zones" : "field" }, ...Object.values(lines), ...dots.map((it) => it.made));
  points(box, dots, at);
  const legend = h("span", {}, bounds ? named(bounds) : "");
  const drawn = { field: box, dots, lines, legend, at };
  if (bounds) zones(drawn, bounds);
  const ends = h("div", { class: "ends soft" }, h("span", {}, score(least)), legend, h("span", {}, score(most)));
  drawn.plot = h("div", { class: "grades" }, box, ends, pointed);
  return drawn;
}

/** The arrow keys go from passage to passage in the order of their grades; a pointer finds the nearest. */
function points(box, dots, at) {
  const sorted = dots.toSorted((a, b) => a.passage.score - b.passage.score);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    const from = sorted.findIndex((it) => it.made === event.target);
    const to = sorted[from + step];
    if (from < 0 || !to) return;
    event.preventDefault();
    for (const it of dots) it.made.tabIndex = it === to ? 0 : -1;
    to.made.focus();
  });
  box.addEventListener("pointermove", (event) => {
    const { left, width } = box.getBoundingClientRect();
    const away = (it) => Math.abs(at(it.passage.score) - (event.clientX - left) / width);
    const nearest = dots.reduce((a, b) => (away(b) < away(a) ? b : a), dots[0]);
    if (nearest && away(nearest) < 0.03) nearest.made.dispatchEvent(new PointerEvent("pointerenter"));
  });
}

/** Shows the same passages between other thresholds. */
export function recolour(drawn, bounds) {
  zones(drawn, bounds);
  for (const { made, passage } of drawn.dots) made.className = `dot ${kindOf(passage, bounds)}`;
  for (const [name, line] of Object.entries(drawn.lines)) setVars(line, { at: drawn.at(bounds[name]) });
  drawn.legend.textContent = named(bounds);
}

const named = (bounds) => ["lower", "upper"].map((name) => `${t(name)} ${score(bounds[name])}`).join(" · ");
const zones = ({ field: box, at }, { lower, upper }) => setVars(box, { lower: clamp(at(lower)), upper: clamp(at(upper)) });
const clamp = (share) => Math.min(1, Math.max(0, share));

export function range(passages, bounds) {
  const all = [-1, 1, ...passages.map((it) => it.score), ...(bounds ? [bounds.upper, bounds.lower] : [])];
  return [Math.min(...all), Math.max(...all)];
}

/** The first lane with room, else the one that holds the fewest. */
function lane(lanes, share) {
  const free = lanes.findIndex((shares) => shares.every((other) => Math.abs(other - share) > APART));
  if (free < 0 && lanes.length < LANES) return lanes.push([share]) - 1;
  const chosen = free < 0 ? lanes.indexOf(lanes.reduce((a, b) => (b.length < a.length ? b : a))) : free;
  lanes[chosen].push(share);
  return chosen;
}

function kindOf({ score: value }, bounds) {
  if (!bounds) return "plain";
  return value >= bounds.upper ? "correct" : value < bounds.lower ? "incorrect" : "ambiguous";
}

function dot(it, share, row, kind, pointed) {
  const label = `${score(it.score)} ${it.title || it.source}`;
  const show = () => {
    pointed.classList.remove("soft");
    put(pointed, h("b", {}, score(it.score)), " ", it.title, " ", link(it.source));
  };
  const on = { onfocus: show, onpointerenter: show, onclick: show };
  return h("button", { class: `dot ${kind}`, "aria-label": label, vars: { at: share, lane: row }, ...on });
}

/** The passages with their grades, best first. */
export function list(passages, bounds) {
  const rows = passages.map((it) =>
    h("li", {}, h("span", { class: `grade ${kindOf(it, bounds)}` }, score(it.score)), h("div", {}, it.title, " ", link(it.source))),
  );
  return h("ul", { class: "rows" }, ...rows);
}
