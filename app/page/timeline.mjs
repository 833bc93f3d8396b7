/** Every step as a bar from its start on; a click shows what the step found. */

import { byId, h, put, setVars } from "./dom.mjs";
import { details } from "./evidence.mjs";
import { ms, t } from "./words.mjs";

let shown = { drawing: null, rows: [] };

/** Adds what is new and brings up to date what was running. */
export function render(run) {
  const list = byId("steps");
  if (shown.drawing !== run.drawing) {
    put(list);
    shown = { drawing: run.drawing, rows: [], running: new Set() };
  }
  const added = run.steps.slice(shown.rows.length).map(row);
  for (const it of added) {
    shown.rows.push(it);
    shown.running.add(it);
  }
  list.append(...added.map((it) => it.item));
  for (const it of shown.running) if (update(it, run)) shown.running.delete(it);
  setVars(list, { span: run.span });
  byId("timeline-empty").hidden = run.steps.length > 0;
}

/** Whether the step has come to its end. */
function update({ step, item, bar, time }, run) {
  const ended = step.took !== null || run.done;
  setVars(bar, { at: step.at, took: step.took ?? Math.max(0, run.span - step.at) });
  time.textContent = step.took === null ? (run.done ? "–" : "…") : ms(step.took);
  item.classList.toggle("running", !ended);
  return ended;
}

function row(step) {
  const bar = h("span", { class: "bar" });
  const time = h("span", { class: "took" });
  const found = h("div", { class: "found", hidden: true });
  const name = h("span", { class: step.path.length > 1 ? "name inner" : "name" }, step.name);
  const button = h(
    "button",
    { class: "step", "aria-expanded": "false", title: step.path.join(" › ") },
    name,
    h("span", { class: "track" }, bar),
    time,
  );
  button.addEventListener("click", () => toggle(step, button, found));
  const item = h("li", { data: { step: step.name } }, button, found);
  return { step, item, bar, time };
}

function toggle(step, button, found) {
  const opens = found.hidden;
  found.hidden = !opens;
  button.setAttribute("aria-expanded", String(opens));
  if (!opens) return;
  const times = h("p", { class: "soft" }, t("startedAt", ms(step.at)), step.took === null ? null : ` · ${t("tookTime", ms(step.took))}`);
  put(found, times, ...details(step.detail));
}
