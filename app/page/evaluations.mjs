/** Evaluations: question sets measured on the documents, with their reports. */

import { call, hasKey, latestOf } from "./api.mjs";
import * as documents from "./documents.mjs";
import { byId, h, put } from "./dom.mjs";
import { save } from "./share.mjs";
import { current, t, when } from "./words.mjs";

const AGAIN_MS = 1500;
let listed = [];
let waiting = 0;
const latest = latestOf();

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
  put(byId("evaluation-list"), ...listed.map(row));
  byId("evaluations-empty").hidden = listed.length > 0;
}

function row(it) {
  const facts = [t(`status.${it.status}`), t("doneOf", it.done, it.total), when(it.created_at), it.problem].filter(Boolean).join(" · ");
  const meter = it.status === "running" ? h("progress", { max: it.total, value: it.done, "aria-label": it.name }) : null;
  const report = it.status === "done" ? reportOf(it) : null;
  const stop = it.status === "running" ? h("button", { data: { cancel: it.evaluation_id } }, t("cancel")) : null;
  return h("li", {}, h("div", {}, h("b", {}, it.name), h("p", { class: "soft" }, facts), meter), report, stop);
}

/** A new tab carries no key: with one, the report is saved instead. */
function reportOf({ evaluation_id: id, name }) {
  const address = `evaluations/${id}/report?language=${current()}`;
  if (!hasKey()) return h("a", { href: address, target: "_blank", rel: "noopener" }, t("report_of"));
  return h("button", { data: { report: address, name } }, t("report_of"));
}

export function wire(failed) {
  byId("evaluations-refresh").onclick = () => load().catch(failed);
  byId("evaluation-form").onsubmit = (event) => {
    event.preventDefault();
    begin().catch(failed);
  };
  byId("evaluation-list").onclick = ({ target }) => {
    const { cancel, report, name } = target.dataset;
    if (cancel) call(`evaluations/${cancel}/cancel`, { method: "POST" }).then(load).catch(failed);
    if (report) keep(report, name).catch(failed);
  };
}

async function begin() {
  const [file] = byId("evaluation-file").files;
  if (!file) return;
  byId("trouble").hidden = true;
  await call("evaluations", { json: { name: file.name, questions: await file.text(), ...documents.chosen() } });
  byId("evaluation-form").reset();
  await load();
}

async function keep(address, name) {
  save(await (await call(address)).text(), `${name}.html`, "text/html");
}
