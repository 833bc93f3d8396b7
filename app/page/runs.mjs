/** Past runs: the list, the comparison of two, and what users say of an answer. */

import { latestOf, read } from "./api.mjs";
import { byId, h, put } from "./dom.mjs";
import { refusal, t, when } from "./words.mjs";

const PAGE = 30;
let listed = [];
let total = 0;
const latest = latestOf();
const chosen = new Set();

/** Loads the newest runs, or those after the ones shown. */
export async function load(more = false) {
  const offset = more ? listed.length : 0;
  const page = await latest(`runs?limit=${PAGE}&offset=${offset}`);
  if (!page) return;
  listed = more ? [...listed, ...page.runs] : page.runs;
  total = page.total;
  for (const id of chosen) if (!listed.some((run) => run.run_id === id)) chosen.delete(id);
  render();
}

export function render() {
  put(byId("run-list"), ...listed.map(row));
  byId("runs-empty").hidden = listed.length > 0;
  byId("runs-more").hidden = listed.length >= total;
  count();
}

/** The two runs chosen for comparison, the older first. */
export const pair = () => listed.map((run) => run.run_id).filter((id) => chosen.has(id)).toReversed();

function count() {
  byId("compare").disabled = chosen.size !== 2;
}

function row(run) {
  const choose = h("input", {
    type: "checkbox",
    "aria-label": t("chooseRun", run.question),
    checked: chosen.has(run.run_id),
    onchange: (event) => {
      if (event.target.checked) chosen.add(run.run_id);
      else chosen.delete(run.run_id);
      count();
    },
  });
  const said = run.answer ? h("p", { class: "said soft" }, run.answer) : null;
  const ended = run.stopped_by ? t(`stopped.${run.stopped_by}`) : t(`status.${run.status}`);
  const facts = h("p", { class: "soft" }, `${run.workflow} · ${ended} · ${when(run.created_at)}`);
  const open = h("a", { href: `#run=${run.run_id}` }, run.question);
  return h("li", { data: { run: run.run_id } }, choose, h("div", {}, open, said, facts));
}

/** Shows what changed from one run to another. */
export async function compare(first, second) {
  const diff = await read(`runs/${first}/diff/${second}`);
  const parts = Object.entries(FORMS).map(([name, form]) => {
    if (!diff[name].length) return null;
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

/** Asks what the user thinks of a finished run's answer. */
export function feedback(run) {
  const box = byId("feedback");
  if (!run.answer) return put(box);
  const given = run.feedback.map((it) => h("p", { class: "soft" }, t("given", `${it.score}${it.corrected_answer ? ` — ${it.corrected_answer}` : ""}`)));
  const good = h("button", { onclick: () => send(run, { score: 1 }) }, t("good"));
  const bad = h("button", { "aria-expanded": "false" }, t("bad"));
  const text = h("textarea", { rows: 3, id: "corrected" });
  const form = h("form", { hidden: true }, h("label", { for: "corrected" }, t("corrected")), text, h("button", {}, t("send")));
  bad.addEventListener("click", () => {
    form.hidden = !form.hidden;
    bad.setAttribute("aria-expanded", String(!form.hidden));
    if (!form.hidden) text.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const corrected = text.value.trim();
    send(run, { score: -1, ...(corrected && { corrected_answer: corrected }) });
  });
  return put(box, h("p", { class: "question" }, t("feedback"), " ", good, bad), form, ...given);
}

async function send(run, json) {
  const box = byId("feedback");
  const buttons = [...box.querySelectorAll("button")];
  const hold = (held) => buttons.forEach((it) => (it.disabled = held));
  box.querySelector("[role=alert]")?.remove();
  hold(true);
  try {
    run.feedback.push(await read(`runs/${run.id}/feedback`, { json }));
    feedback(run);
    box.append(h("p", { role: "status", class: "thanks" }, t("thanks")));
  } catch (error) {
    hold(false);
    box.append(h("p", { role: "alert", class: "error" }, refusal(json.corrected_answer ?? "", error)));
  }
}
