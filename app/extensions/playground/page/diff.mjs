/** Two runs compared: what differs, and nothing else. */

import { read } from "./api.mjs";
import { byId, h, put } from "./dom.mjs";
import { t } from "./words.mjs";

/** Shows what changed from one run to another. */
export async function show(first, second) {
  const diff = await read(`runs/${first}/diff/${second}`);
  const parts = Object.entries(FORMS).map(([name, form]) => {
    if (!diff[name].length) return null;
    if (name === "took_ms") return h("details", { class: "part" }, h("summary", {}, t("diff.took_ms")), form(diff[name]));
    return h("section", { class: "part" }, h("h3", {}, t(`diff.${name}`)), form(diff[name]));
  });
  const [a, b] = [first, second].map((id) => h("a", { href: `#run=${id}` }, id.slice(0, 8)));
  const title = h("h2", { tabindex: -1 }, t("diff"), " ", h("span", { class: "soft" }, a, " → ", b));
  const other = Object.keys(FORMS).some((name) => name !== "took_ms" && diff[name].length);
  put(byId("diff"), title, other ? null : h("p", {}, t("noChange")), ...parts);
  byId("diff").hidden = false;
  title.focus();
}

const said = (value) => (value === null ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value));
const rounded = (value) => (typeof value === "number" ? String(Math.round(value * 100) / 100) : said(value));

function table(changes, name = (it) => it.name) {
  const cells = (it) => [name(it), rounded(it.before), rounded(it.after)];
  const heads = ["", t("before"), t("after")].map((it) => (it ? h("th", { scope: "col" }, it) : h("td", {})));
  const rows = changes.map((it) => {
    const [first, ...others] = cells(it);
    return h("tr", {}, h("th", { scope: "row" }, first), ...others.map((cell) => h("td", {}, cell)));
  });
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": t("diff") }, h("table", {}, h("thead", {}, h("tr", {}, ...heads)), h("tbody", {}, ...rows)));
}

const TAG = { same: "span", removed: "del", added: "ins" };
const words = (pieces, glue = "") => h("p", { class: "text" }, ...pieces.flatMap((it) => [h(TAG[it.kind], {}, it.text), glue]));
const titled = (changes, name) => table(changes, name);

const FORMS = {
  request: table,
  decided: table,
  path: (pieces) => words(pieces, " › "),
  grades: (changes) => titled(changes, (it) => it.title),
  strips: (changes) => titled(changes.map((it) => ({ ...it, before: it.before && t(it.before), after: it.after && t(it.after) })), (it) => it.text),
  drafts: (changes) => h("div", {}, ...changes.flatMap((it) => [h("h4", {}, it.name), words(it.words)])),
  critique: table,
  answer: words,
  usage: table,
  took_ms: table,
};

