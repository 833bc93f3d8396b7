/** Passages on the axis of their scores, between the thresholds that decided the action. */

import { h, link, put, setVars } from "./dom.mjs";
import { score, t } from "./words.mjs";

/**
 * The plot and, below it, the passage that is pointed at; `bounds` null: nothing was decided. The
 * first `seen` passages stand already, the others drop. {plot, field, dots, lines, share}
 */
export function field(passages, bounds, seen = passages.length) {
  const [least, most] = range(passages, bounds);
  const at = (value) => (value - least) / (most - least);
  const told = h("p", { class: "pointed soft" }, t("gradesHint"));
  const lanes = [];
  const dots = passages.map((it, index) => {
    const made = dot(it, at(it.score), lane(lanes, at(it.score)), kindOf(it, bounds), told);
    if (index >= seen) {
      made.classList.add("drops");
      setVars(made, { after: index - seen });
    }
    return { made, passage: it };
  });
  const lines = bounds ? Object.fromEntries(["lower", "upper"].map((name) => [name, threshold(name, bounds[name], at(bounds[name]))])) : {};
  const box = h("div", { class: bounds ? "field zones" : "field", vars: { lanes: lanes.length } }, ...Object.values(lines), ...dots.map((it) => it.made));
  const drawn = { field: box, dots, lines, at };
  if (bounds) zones(drawn, bounds);
  const ends = h("div", { class: "ends soft" }, h("span", {}, score(least)), h("span", {}, score(most)));
  drawn.plot = h("div", { class: "grades" }, box, ends, told);
  return drawn;
}

/** Shows the same passages between other thresholds. */
export function recolour(drawn, bounds) {
  zones(drawn, bounds);
  for (const { made, passage } of drawn.dots) made.className = `dot ${kindOf(passage, bounds)}`;
  for (const [name, line] of Object.entries(drawn.lines)) {
    setVars(line, { at: drawn.at(bounds[name]) });
    line.dataset.side = sideOf(drawn.at(bounds[name]));
    line.firstChild.textContent = `${t(name)} ${score(bounds[name])}`;
  }
}

const zones = ({ field: box, at }, { lower, upper }) => setVars(box, { lower: clamp(at(lower)), upper: clamp(at(upper)) });
const clamp = (share) => Math.min(1, Math.max(0, share));

export function range(passages, bounds) {
  const all = [-1, 1, ...passages.map((it) => it.score), ...(bounds ? [bounds.upper, bounds.lower] : [])];
  return [Math.min(...all), Math.max(...all)];
}

/** The first lane with room: dots of about the same score stand above each other. */
function lane(lanes, share) {
  const free = lanes.findIndex((last) => last.every((other) => Math.abs(other - share) > 0.075));
  if (free < 0) return lanes.push([share]) - 1;
  lanes[free].push(share);
  return free;
}

function kindOf({ score: value }, bounds) {
  if (!bounds) return "plain";
  return value >= bounds.upper ? "correct" : value < bounds.lower ? "incorrect" : "ambiguous";
}

function dot(it, share, row, kind, told) {
  const label = `${score(it.score)} ${it.title || it.source}`;
  const show = () => {
    told.classList.remove("soft");
    put(told, h("b", {}, score(it.score)), " ", it.title, " ", link(it.source));
  };
  const on = { onfocus: show, onpointerenter: show, onclick: show };
  return h("button", { class: `dot ${kind}`, "aria-label": label, vars: { at: share, lane: row }, ...on });
}

/** The name of the lower threshold stands outside of the two, where there is room. */
const sideOf = (share) => (share < 0.3 ? "right" : "left");

const threshold = (name, value, share) =>
  h("div", { class: `bound ${name}`, vars: { at: share }, data: { side: sideOf(share) } }, h("span", {}, `${t(name)} ${score(value)}`));

/** The passages with their grades, best first. */
export function list(passages, bounds) {
  const rows = passages.map((it) =>
    h("li", {}, h("span", { class: `grade ${kindOf(it, bounds)}` }, score(it.score)), h("div", {}, it.title, " ", link(it.source))),
  );
  return h("ul", { class: "rows" }, ...rows);
}
