/** Two evaluations compared: measures in pairs, and the answers that changed, question by question. */

import { byId, h, put } from "./dom.mjs";
import { said, t } from "./words.mjs";

const SHOWN = 50;

/** Shows the comparison of two evaluations; `report` leads to the whole page. */
export function show(result, [before, after], report) {
  const title = h("h2", { tabindex: -1 }, t("diff"), " ", h("span", { class: "soft" }, before.name, " → ", after.name));
  const isShared = result.questions > 0 && result.variants.length > 0;
  const about = isShared ? t("sharedOf", result.questions, result.variants.length) : t("nothingShared");
  put(byId("comparison"), h("div", { class: "line" }, title, isShared ? report : null), h("p", { class: "soft" }, about));
  if (isShared) byId("comparison").append(...result.variants.map((name) => measures(name, result.measures)), changes(result.changed));
  byId("comparison").hidden = false;
}

/** What differs; the measures that do not are folded away. */
function measures(variant, all) {
  const known = all.filter((it) => it.variant === variant);
  const [other, equal] = [known.filter((it) => it.difference), known.filter((it) => !it.difference)];
  const folded = equal.length ? h("details", {}, h("summary", {}, t("equalMeasures", equal.length)), table(variant, equal)) : null;
  return h("section", { class: "part" }, h("h3", {}, variant), other.length ? table(variant, other) : null, folded);
}

function table(label, rows) {
  const heads = ["measure", "before", "after", "difference"].map((it) => h("th", { scope: "col" }, t(it)));
  const inside = h("table", {}, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows.map(measure)));
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, inside);
}

function measure(it) {
  const digits = it.group === "cost" ? 1 : 3;
  const interval = it.low === null ? "" : `${signed(it.low, digits)} … ${signed(it.high, digits)}, `;
  const turned = it.turned ? h("span", { class: `chip ${it.turned === "better" ? "correct" : "incorrect"}` }, t(`turned.${it.turned}`)) : null;
  const difference = h("td", {}, signed(it.difference, digits), " ", h("span", { class: "soft" }, `${interval}n ${it.n}`), " ", turned);
  const values = [it.before, it.after].map((value) => h("td", {}, value.toFixed(digits)));
  return h("tr", {}, h("th", { scope: "row" }, said("MEASURES", it.measure, it.title)), ...values, difference);
}

const signed = (value, digits) => (value > 0 ? "+" : "") + value.toFixed(digits).replace("-", "−");

function changes(all) {
  if (!all.length) return h("p", {}, t("noAnswerChanged"));
  const list = h("div", { class: "part" }, ...all.slice(0, SHOWN).map(change));
  const more = h("button", { onclick: () => (more.remove(), list.append(...all.slice(SHOWN).map(change))) }, t("more"));
  return h("section", { class: "part" }, h("h3", {}, t("changedAnswers", all.length)), list, all.length > SHOWN ? more : null);
}

function change({ question, variant, before, after }) {
  const turn = before.right === after.right ? null : h("span", { class: `chip ${kind(after)}` }, `${t(`right.${before.right}`)} → ${t(`right.${after.right}`)}`);
  const sides = [["before", before], ["after", after]].map(([name, it]) => h("div", { class: "part" }, h("h4", {}, t(name)), ...side(it)));
  return h("details", {}, h("summary", {}, question, " ", h("span", { class: "tag" }, variant), " ", turn), h("div", { class: "sides" }, ...sides));
}

const kind = ({ right }) => ({ true: "correct", false: "incorrect" })[right] ?? "ambiguous";

function side({ answer, action, verdict, lost_at: lost, failure }) {
  if (failure) return [h("p", { class: "error" }, failure)];
  const facts = [action && t(`action.${action}`), t(`verdict.${verdict}`), lost && t(`lost.${lost}`)].filter(Boolean);
  return [h("p", { class: "soft" }, facts.join(" · ")), h("p", { class: "text" }, answer)];
}
