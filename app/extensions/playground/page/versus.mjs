/** One question by two workflows, side by side. */

import { call } from "./api.mjs";
import { cited, isQuoted } from "./answer.mjs";
import * as asking from "./asking.mjs";
import * as documents from "./documents.mjs";
import { atNextFrame, byId, h, put } from "./dom.mjs";
import { follow } from "./follow.mjs";
import * as options from "./options.mjs";
import { Run } from "./run.mjs";
import * as sources from "./sources.mjs";
import { brief, stageOf, stagesOf } from "./stages.mjs";
import * as words from "./words.mjs";

const { t } = words;
const BASELINE = "rag";
let runs = []; // both, the baseline first
let leaving = new AbortController();

const addressOf = () => `#compare=${runs.map((it) => it.id).join(",")}`;

/** Runs the question by the baseline and by `workflow`; a run of one of them that is known stands for it. */
export async function ask(question, workflow, known = null) {
  leave();
  const signal = leaving.signal;
  runs = [BASELINE, workflow].map((name) => (known?.workflow === name ? known : Object.assign(new Run(question), { workflow: name })));
  show();
  await Promise.all(runs.map((run) => (run.done ? null : see(run, signal))));
  const isSeen = !signal.aborted && !byId("versus").hidden;
  if (isSeen && runs.every((it) => it.id)) history.pushState(null, "", addressOf());
}

async function see(run, signal) {
  const json = { question: run.question, workflow: run.workflow, stream: true, detach: true, ...documents.chosen() };
  const given = options.given();
  if (Object.keys(given).length) json.options = given;
  try {
    await follow(run, await call("ask", { json, signal }), signal, draw);
  } catch (error) {
    if (signal.aborted) return;
    Object.assign(run, { done: true, error: { detail: asking.messageOf(error, run.question) } });
  }
  draw();
}

/** Two kept runs. */
export async function open(ids) {
  if (location.hash === addressOf() && runs.length) return show();
  leave();
  const { signal } = leaving;
  runs = await Promise.all(ids.slice(0, 2).map((id) => asking.keptRun(id, signal)));
  return show();
}

function leave() {
  leaving.abort();
  leaving = new AbortController();
}

/** Ends both where they are under way. */
export function cancel() {
  for (const { id, done } of runs) if (id && !done) call(`runs/${id}/cancel`, { method: "POST" }).catch(() => {});
}

function show() {
  for (const id of ["welcome", "turn", "turns"]) byId(id).hidden = true;
  byId("versus").hidden = false;
  scrollTo({ top: 0 });
  draw();
}

export function draw() {
  atNextFrame("versus", () => {
    if (!runs.length) return;
    const isOver = runs.every((it) => it.done && it.id);
    const changes = isOver ? h("a", { href: `#diff=${runs.map((it) => it.id).join(",")}` }, t("compareRuns")) : null;
    const title = h("h2", { id: "versus-question" }, runs[0].question);
    put(byId("versus"), title, h("div", { class: "columns" }, ...runs.map(column)), changes);
  });
}

function column(run) {
  const { answer, error, lost } = run;
  const parts = answer ? answered(run) : [h("p", { class: "soft", role: "status" }, run.now ? t(`doing.${stageOf(run.now.path)}`) : t("stateAsking"))];
  const failed = error || lost ? h("p", { class: "error", role: "alert" }, error?.detail ?? t(lost)) : null;
  return h("section", { class: "side card", data: { workflow: run.workflow } }, h("h3", {}, run.workflow), failed, ...(failed && !answer ? [] : parts));
}

function answered(run) {
  const { answer } = run;
  const numbers = sources.numbering(answer);
  const chip = h("span", { class: `chip ${answer.verdict}` }, t(`verdict.${answer.verdict}`));
  const likely = h("span", { class: "soft" }, words.likely(answer.confidence));
  const text = h(isQuoted(answer) ? "blockquote" : "p", { class: "said" }, ...plain(cited(answer, numbers)));
  const listed = sources.inOrder(answer, numbers).map((it) => h("li", {}, h("b", {}, it.number), " ", it.title || it.source, h("span", { class: "soft" }, ` ${it.source}`)));
  const opened = h("a", { href: `#run=${run.id}` }, t("openRun"));
  return [h("p", { class: "line" }, chip, likely), text, h("ol", { class: "listed" }, ...listed), h("p", { class: "soft" }, brief(run, stagesOf(run))), opened];
}

/** Numbers lead nowhere here: the sources stand right below. */
function plain(pieces) {
  for (const piece of pieces.flat(2)) {
    for (const cite of piece?.querySelectorAll?.(".cite") ?? []) cite.replaceWith(h("sup", {}, cite.textContent));
  }
  return pieces;
}
