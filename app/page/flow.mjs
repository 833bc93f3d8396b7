/** The living flow: the stages that a run went through, in plain words, each with its inspector. */

import { byId, h, put } from "./dom.mjs";
import { details } from "./evidence.mjs";
import { given, isBefore, said, sideBySide, stagesOf, untaken } from "./stages.mjs";
import { ms, t } from "./words.mjs";
import { board } from "./what_if.mjs";

let shown = { drawing: null, rows: new Map(), version: -1, log: -1 };

/** Brings the flow up to what the run has told; `former` is the run it was forked from. */
export function render(run, former, forked) {
  byId("total").textContent = run.done ? ms(run.span) : "";
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
  write(row.before, then && then !== now ? t("before_now", then) : "");
  row.before.hidden = !row.before.textContent;
  row.button.disabled = !row.stage;
  if (!row.inspector.hidden) inspect(row);
  if (stage && name === "grade") board(row.board, run, forked);
  if (stage && name === "refine") strips(row.board, run);
}

/** Strips as they are graded, one bar each: the kept ones are handed to the draft. */
function strips(box, run) {
  const ended = run.steps.findLast((step) => step.name === "refine" && step.detail.strips);
  const all = ended?.detail.strips ?? (run.progress.get("refine")?.items ?? []);
  box.classList.add("strips-board");
  box.classList.toggle("handed", Boolean(ended));
  all.forEach((it, index) => {
    const bar = box.children[index] ?? box.appendChild(h("span"));
    const kind = it.kept ? "strip kept" : "strip";
    if (bar.className !== kind) bar.className = kind;
  });
}

const write = (element, text) => element.textContent === text || (element.textContent = text);

function made(name) {
  const words = h("span", { class: "words" });
  const took = h("span", { class: "took" });
  const before = h("p", { class: "before", hidden: true });
  const inspector = h("div", { class: "found", hidden: true });
  const head = h("span", { class: "stage-name" }, t(`flow.${name}`));
  const button = h("button", { class: "step", "aria-expanded": "false" }, head, words, took);
  const row = { button, words, took, before, inspector, board: h("div", { class: "board" }) };
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
    ...stage.steps.map(inspected),
  );
}

/** One step: its name in the graph, its time, and what it told. */
export function inspected(step) {
  const time = step.took === null ? "…" : t("tookTime", ms(step.took));
  const times = `${t("startedAt", ms(step.at))} · ${time}`;
  const name = h("summary", {}, h("code", {}, step.path.join(" › ")), " ", h("span", { class: "soft" }, step.detail.reused ? t("reused") : times));
  const detail = Object.fromEntries(Object.entries(step.detail).filter(([key]) => key !== "reused"));
  const tells = Object.keys(detail).length > 0;
  return h("details", { class: "one-step", open: tells, data: { step: step.name } }, name, h("div", { class: "told" }, ...details(detail)));
}

/** Ways that were not taken stand folded behind the stage that decided so. */
function sides(run, stages) {
  for (const old of byId("flow").querySelectorAll(".side")) old.remove();
  for (const { after, title, why } of untaken(run, stages)) {
    const folded = h("details", {}, h("summary", {}, title), h("p", {}, why));
    shown.rows.get(after)?.item.after(h("li", { class: "side" }, folded));
  }
}
