/** The living flow: the stages that a run went through, in plain words, each with its inspector. */

import { byId, h, put, setVars } from "./dom.mjs";
import * as strips from "./strips.mjs";
import { brief, isBefore, said, sideBySide, stagesOf, untaken } from "./stages.mjs";
import { ms, t } from "./words.mjs";

let inspector = null; // its module, once a stage was opened
let shown = { drawing: null, rows: new Map(), version: -1, log: -1 };

/** Brings the flow up to the events of the run; `former` is the run it was forked from. */
export function render(run, former) {
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
  for (const row of rows) draw(row, run, former);
  sides(run, stages);
  byId("how-brief").textContent = run.done ? brief(run, stages) : "";
}

/** The calls and tokens of language models. */
function totals(run) {
  const { llm_calls: calls, input_tokens: sent, output_tokens: got } = run.answer?.usage ?? {};
  return [calls && t("callsOf", calls), sent + got > 0 && t("tokensIn", sent + got)].filter(Boolean).join(" · ");
}

function draw({ name, stage, before }, run, former) {
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
  if (!row.inspector.hidden) inspector?.inspect(row);
  if (stage && strips.GRADED_BY[name]) strips.graded(row.board, run, strips.GRADED_BY[name]);
  if (stage && name === "draft") strips.handed(row.board, run, byId("flow"));
}

/** A bar from when something began, as long as it took, on the time of the whole run. */
export function place(track, at, took, span) {
  setVars(track, { at: (at / span).toFixed(4), share: (took / span).toFixed(4) });
}

export const track = () => h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "bar" }));

const write = (element, text) => element.textContent === text || (element.textContent = text);

function made(name) {
  const words = h("span", { class: "words" });
  const took = h("span", { class: "took" });
  const before = h("p", { class: "before", hidden: true });
  const box = h("div", { class: "found", hidden: true });
  const head = h("span", { class: "stage-name" }, t(`flow.${name}`));
  const bar = track();
  const button = h("button", { class: "step", "aria-expanded": "false" }, head, bar, took, words);
  const row = { button, words, took, before, inspector: box, track: bar, board: h("div", { class: "board" }) };
  button.addEventListener("click", async () => {
    box.hidden = !box.hidden;
    button.setAttribute("aria-expanded", String(!box.hidden));
    inspector ??= await import("./inspector.mjs");
    if (!box.hidden) inspector.inspect(row);
  });
  row.item = h("li", { data: { stage: name } }, button, before, row.board, box);
  return row;
}

/** Ways that were not taken stand folded behind the stage that decided so. */
function sides(run, stages) {
  for (const old of byId("flow").querySelectorAll(".side")) old.remove();
  for (const { after, title, why } of untaken(run, stages)) {
    const folded = h("details", {}, h("summary", {}, title), h("p", {}, why));
    shown.rows.get(after)?.item.after(h("li", { class: "side" }, folded));
  }
}
