/** Evaluations: question sets measured on the documents, with their reports, and two compared. */

import { call, hasKey, latestOf } from "./api.mjs";
import * as comparison from "./comparison.mjs";
import * as documents from "./documents.mjs";
import { byId, h, put } from "./dom.mjs";
import * as labelling from "./labelling.mjs";
import { save } from "./share.mjs";
import { current, t, when } from "./words.mjs";

const AGAIN_MS = 1500;
let listed = [];
let waiting = 0;
let compared = null;
const latest = latestOf();
const latestComparison = latestOf();
const chosen = new Set();

export async function load() {
  clearTimeout(waiting);
  const page = await latest("evaluations?limit=50");
  if (!page) return;
  listed = page.evaluations;
  render();
  const isGoing = listed.some((it) => it.status === "running");
  if (isGoing && !byId("evaluations-view").hidden) waiting = setTimeout(() => load().catch(() => {}), AGAIN_MS);
}

export function render() {
  for (const id of chosen) if (!listed.some((it) => it.evaluation_id === id)) chosen.delete(id);
  put(byId("evaluation-list"), ...listed.map(row));
  byId("evaluations-empty").hidden = listed.length > 0;
  count();
  labelling.render();
  if (compared) showComparison();
}

/** The two that are chosen, the older first. */
const pair = () => listed.filter((it) => chosen.has(it.evaluation_id)).toReversed();

function count() {
  byId("evaluations-compare").disabled = chosen.size !== 2;
}

async function compare() {
  const both = pair();
  const [before, after] = both.map((it) => it.evaluation_id);
  const result = await latestComparison(`evaluations/${after}/comparison?baseline=${before}`);
  if (!result) return;
  compared = { result, both };
  showComparison();
  byId("comparison").querySelector("h2").focus();
}

function showComparison() {
  const { result, both } = compared;
  comparison.show(result, both, reportOf(both[1], `&baseline=${both[0].evaluation_id}`));
}

function row(it) {
  const facts = [t(`status.${it.status}`), t("doneOf", it.done, it.total), when(it.created_at), it.problem].filter(Boolean).join(" · ");
  const meter = it.status === "running" ? h("progress", { max: it.total, value: it.done, "aria-label": it.name }) : null;
  const report = it.status === "done" ? reportOf(it) : null;
  const stop = it.status === "running" ? h("button", { data: { cancel: it.evaluation_id } }, t("cancel")) : null;
  return h("li", {}, chooser(it), h("div", {}, h("b", {}, it.name), h("p", { class: "soft" }, facts), meter), report, stop);
}

function chooser({ evaluation_id: id, name, status, created_at: at }) {
  if (status !== "done") return null;
  const onchange = ({ target }) => {
    if (target.checked) chosen.add(id);
    else chosen.delete(id);
    count();
  };
  return h("input", { type: "checkbox", "aria-label": t("chooseRun", `${name}, ${when(at)}`), checked: chosen.has(id), onchange });
}

/** A new tab carries no key: with one, the report is saved instead. */
function reportOf({ evaluation_id: id, name }, more = "") {
  const address = `evaluations/${id}/report?language=${current()}&calibrate=true${more}`;
  if (!hasKey()) return h("a", { href: address, target: "_blank", rel: "noopener" }, t("report_of"));
  return h("button", { data: { report: address, name } }, t("report_of"));
}

export function wire(failed) {
  labelling.wire(evaluate, failed);
  byId("evaluations-refresh").onclick = () => load().catch(failed);
  byId("evaluation-form").onsubmit = (event) => {
    event.preventDefault();
    begin().catch(failed);
  };
  byId("evaluations-compare").onclick = () => {
    byId("trouble").hidden = true;
    compare().catch(failed);
  };
  byId("evaluations-view").onclick = ({ target }) => {
    const { cancel, report, name } = target.dataset;
    if (cancel) call(`evaluations/${cancel}/cancel`, { method: "POST" }).then(load).catch(failed);
    if (report) keep(report, name).catch(failed);
  };
}

async function begin() {
  const [file] = byId("evaluation-file").files;
  if (!file) return;
  await evaluate({ name: file.name, questions: await file.text() });
  byId("evaluation-form").reset();
}

async function evaluate(asked) {
  byId("trouble").hidden = true;
  await call("evaluations", { json: { ...asked, ...documents.chosen() } });
  await load();
}

async function keep(address, name) {
  save(await (await call(address)).text(), `${name}.html`, "text/html");
}
