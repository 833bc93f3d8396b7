/** The living flow: the stages that a run went through, in plain words, each with its inspector. */

import { byId, h, put, setVars } from "./dom.mjs";
import { details } from "./evidence.mjs";
import * as prompts from "./prompts.mjs";
import * as strips from "./strips.mjs";
import { given, isBefore, said, sideBySide, stagesOf, untaken } from "./stages.mjs";
import { ms, t } from "./words.mjs";
import { board } from "./what_if.mjs";

let shown = { drawing: null, rows: new Map(), version: -1, log: -1 };

/** Brings the flow up to what the run has told; `former` is the run it was forked from. */
export function render(run, former, forked) {
  byId("total").textContent = run.done ? totals(run) : "";
  if (shown.drawing !== run.drawing) {
    put(byId("flow"));
    shown = { drawing: run.drawing, rows: new Map(), version: -1, log: -1, done: false };
  }
  const isOld = shown.version === run.version && shown.log === run.log.length && shown.done === run.done && shown.former === former;
  if (isOld) return;
  Object.assign(shown, { version: run.version, log: run.log.length, done: run.done, former });
  const stages = stagesOf(run);
  const rows = former ? sideBySide(stages, stagesOf(former)) : stages.map((stage) => ({ name: stage.name, stage }));
  for (const row of rows) draw(row, run, former, forked);
  sides(run, stages);
}

/** What the run took in all: its time, and the calls and tokens of language models. */
function totals(run) {
  const { llm_calls: calls, input_tokens: sent, output_tokens: got } = run.answer?.usage ?? {};
  return [ms(run.span), calls && t("callsOf", calls), sent + got > 0 && t("tokensIn", sent + got)].filter(Boolean).join(" · ");
}

function draw({ name, stage, before }, run, former, forked) {
  let row = shown.rows.get(name);
  if (!row) {
    row = made(name);
    shown.rows.set(name, row);
    byId("flow").append(row.item);
  }
  const isKept = !stage && isBefore(name, "grade");
  row.item.classList.toggle("only-before", !stage);
  row.item.classList.toggle("running", Boolean(stage?.running) && !run.done);
  if (stage || isKept) Object.assign(row, stage ? { stage, run } : { stage: before, run: former });
  const then = before ? said(before, former) : "";
  const now = stage ? said(stage, run) : isKept ? then : run.done ? t("notTaken") : "…";
  write(row.words, now);
  const isReused = isKept || stage?.steps.every((step) => step.detail.reused);
  write(row.took, isReused ? t("reused") : stage && !stage.running ? ms(stage.took) : "");
  row.button.title = row.stage && !isReused ? t("startedAt", ms(row.stage.at)) : "";
  row.track.hidden = !stage || isReused;
  if (!row.track.hidden) place(row.track, stage.at, stage.running ? run.span - stage.at : stage.took, run.span);
  write(row.before, then && then !== now ? t("before_now", then) : "");
  row.before.hidden = !row.before.textContent;
  row.button.disabled = !row.stage;
  if (!row.inspector.hidden) inspect(row);
  if (stage && name === "grade") board(row.board, run, forked);
  if (stage && strips.GRADED_BY[name]) strips.graded(row.board, run, strips.GRADED_BY[name]);
  if (stage && name === "draft") strips.handed(row.board, run, byId("flow"));
}

/** A bar from when something began, as long as it took, on the time of the whole run. */
function place(track, at, took, span) {
  setVars(track, { at: (at / span).toFixed(4), share: (took / span).toFixed(4) });
}

const track = () => h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "bar" }));

const write = (element, text) => element.textContent === text || (element.textContent = text);

function made(name) {
  const words = h("span", { class: "words" });
  const took = h("span", { class: "took" });
  const before = h("p", { class: "before", hidden: true });
  const inspector = h("div", { class: "found", hidden: true });
  const head = h("span", { class: "stage-name" }, t(`flow.${name}`));
  const bar = track();
  const button = h("button", { class: "step", "aria-expanded": "false" }, head, bar, took, words);
  const row = { button, words, took, before, inspector, track: bar, board: h("div", { class: "board" }) };
  button.addEventListener("click", () => {
    inspector.hidden = !inspector.hidden;
    button.setAttribute("aria-expanded", String(!inspector.hidden));
    if (!inspector.hidden) inspect(row);
  });
  row.item = h("li", { data: { stage: name } }, button, before, row.board, inspector);
  return row;
}

/** Draws anew only what has changed since: what is unfolded in it stays so. */
function inspect(row) {
  const { stage, run } = row;
  const state = stage.steps.map((step) => step.took).join();
  if (row.inspected === state) return;
  row.inspected = state;
  put(
    row.inspector,
    h("section", { class: "part" }, h("h3", {}, t("inputs")), h("p", {}, given(stage, run))),
    h("h3", {}, t("outputs")),
    ...stage.steps.map((step) => inspected(step, run.span)),
  );
  prompts.fill(row.inspector, run);
}

/** One step: its name in the graph, its time, what it sent to a language model, what it told. */
export function inspected(step, span) {
  const time = step.took === null ? "…" : t("tookTime", ms(step.took));
  const times = `${t("startedAt", ms(step.at))} · ${time}`;
  const name = h("summary", {}, h("code", {}, step.path.join(" › ")), " ", h("span", { class: "soft" }, step.detail.reused ? t("reused") : times));
  const detail = Object.fromEntries(Object.entries(step.detail).filter(([key]) => key !== "reused"));
  const tells = Object.keys(detail).length > 0;
  if (step.took !== null && !step.detail.reused) {
    const bar = track();
    place(bar, step.at, step.took, span);
    name.append(bar);
  }
  const sent = h("div", { class: "prompts", data: { event: step.event } });
  return h("details", { class: "one-step", open: tells, data: { step: step.name } }, name, h("div", { class: "told" }, sent, ...details(detail)));
}

/** Ways that were not taken stand folded behind the stage that decided so. */
function sides(run, stages) {
  for (const old of byId("flow").querySelectorAll(".side")) old.remove();
  for (const { after, title, why } of untaken(run, stages)) {
    const folded = h("details", {}, h("summary", {}, title), h("p", {}, why));
    shown.rows.get(after)?.item.after(h("li", { class: "side" }, folded));
  }
}
