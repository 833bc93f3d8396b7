/** Passages on the axis of their scores, between the thresholds that decided the action. */

import { h, link, put } from "./dom.mjs";
import { score, t } from "./words.mjs";

/** The plot and, below it, the passage that is pointed at; `bounds` null: nothing was decided. */
export function plot(passages, bounds) {
  const [least, most] = range(passages, bounds);
  const at = (value) => (value - least) / (most - least);
  const told = h("p", { class: "pointed soft" }, t("gradesHint"));
  const lanes = [];
  const dots = passages.map((it) => dot(it, at(it.score), lane(lanes, at(it.score)), kindOf(it, bounds), told));
  const lines = bounds ? ["lower", "upper"].map((name) => threshold(name, bounds[name], at(bounds[name]))) : [];
  const vars = bounds ? { lower: clamp(at(bounds.lower)), upper: clamp(at(bounds.upper)) } : {};
  const field = h("div", { class: bounds ? "field zones" : "field", vars: { ...vars, lanes: lanes.length } }, ...lines, ...dots);
  const ends = h("div", { class: "ends soft" }, h("span", {}, score(least)), h("span", {}, score(most)));
  return h("div", { class: "grades" }, field, ends, told, list(passages, bounds));
}

const clamp = (share) => Math.min(1, Math.max(0, share));

function range(passages, bounds) {
  const all = [-1, 1, ...passages.map((it) => it.score), ...(bounds ? [bounds.upper, bounds.lower] : [])];
  return [Math.min(...all), Math.max(...all)];
}

/** The first lane with room: dots of about the same score stand above each other. */
function lane(lanes, share) {
  const free = lanes.findIndex((last) => last.every((other) => Math.abs(other - share) > 0.034));
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

const threshold = (name, value, share) =>
  h("div", { class: `bound ${name}`, vars: { at: share } }, h("span", {}, `${t(name)} ${score(value)}`));

function list(passages, bounds) {
  const rows = passages.map((it) =>
    h("li", {}, h("span", { class: `grade ${kindOf(it, bounds)}` }, score(it.score)), h("div", {}, it.title, " ", link(it.source))),
  );
  return h("details", {}, h("summary", {}, `${t("passages")} (${passages.length})`), h("ul", { class: "rows" }, ...rows));
}
