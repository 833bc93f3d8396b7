/** What if: the passages between thresholds that can be dragged, and the action they would make. */

import { h, put } from "./dom.mjs";
import { field, range, recolour } from "./grades.mjs";
import { score, t } from "./words.mjs";

const STEP = 0.01;
const shown = new WeakMap();

/** CRAG's rule: Correct from the first passage at `upper`, Incorrect where all lie below `lower`. */
function actionBy(scores, { upper, lower }) {
  if (scores.some((it) => it >= upper)) return "correct";
  return scores.some((it) => it >= lower) ? "ambiguous" : "incorrect";
}

/** Of the question and its parts, a row of grades each: as soon as the whole, or each part, is answered. */
export function actionOf(rows, bounds) {
  const [whole, ...parts] = rows.map((row) => actionBy(row.filter((it) => it !== null), bounds));
  if (whole === "correct" || (parts.length && parts.every((it) => it === "correct"))) return "correct";
  return [whole, ...parts].every((it) => it === "incorrect") ? "incorrect" : "ambiguous";
}

/** The board in `box`: passages as they are graded, then thresholds to drag. `forked` runs again. */
export function board(box, run, forked) {
  const graded = run.steps.findLast((step) => step.name === "grade" && step.detail.documents);
  const going = run.progress.get("grade");
  const isOver = Boolean(graded && run.done);
  const state = `${graded ? "graded" : going?.items.length ?? 0} ${isOver}`;
  const last = shown.get(box);
  if (last?.drawing === run.drawing && last.state === state) return;
  const passages = graded ? graded.detail.documents : falling(going, run.found.documents);
  const bounds = graded ? graded.detail.action && graded.detail.thresholds : run.found.thresholds;
  const seen = last?.drawing === run.drawing ? last.count : 0;
  shown.set(box, { drawing: run.drawing, state, count: passages.length });
  if (!passages.length) return put(box);
  const drawn = field(passages, bounds, seen);
  if (!isOver || !bounds) return put(box, drawn.plot);
  const rows = graded.detail.grades ?? [passages.map((it) => it.score)];
  put(box, drawn.plot, ...sliders(drawn, passages, rows, bounds, forked));
}

/** Passages graded so far: their grades come one by one, their titles were found before. */
function falling(going, found = []) {
  const known = new Map(found.map((it) => [it.id, it]));
  return (going?.items ?? []).map((item) => ({ title: item.id, source: "", ...known.get(item.id), score: item.score }));
}

function sliders(drawn, passages, rows, bounds, forked) {
  const now = { ...bounds };
  const outcome = h("output", { class: "action" });
  const hint = h("p", { class: "help" }, t("whatIf"));
  const again = h("button", { class: "primary small", onclick: () => forked({ upper: now.upper, lower: now.lower }) }, t("runFromHere"));
  const offer = h("div", { class: "line offer", hidden: true }, outcome, again, h("p", { class: "help" }, t("runFromHint")));
  const inputs = {};
  const moved = (name, value) => {
    now[name] = value;
    const other = name === "upper" ? "lower" : "upper";
    if (now.lower > now.upper) inputs[other].value = now[other] = value;
    const action = actionOf(rows, now);
    outcome.className = `action ${action}`;
    outcome.textContent = t("whatIfNow", t(`action.${action}`));
    offer.hidden = now.upper === bounds.upper && now.lower === bounds.lower;
    recolour(drawn, now);
  };
  const [least, most] = range(passages, bounds);
  for (const name of ["lower", "upper"]) {
    inputs[name] = h("input", {
      type: "range",
      class: `handle ${name}`,
      min: Math.floor(least * 100) / 100,
      max: Math.ceil(most * 100) / 100,
      step: STEP,
      value: bounds[name],
      "aria-label": t(name),
      "aria-valuetext": score(bounds[name]),
      oninput: ({ target }) => {
        moved(name, Number(target.value));
        target.setAttribute("aria-valuetext", score(now[name]));
      },
    });
  }
  drawn.field.append(inputs.lower, inputs.upper);
  return [hint, offer];
}
