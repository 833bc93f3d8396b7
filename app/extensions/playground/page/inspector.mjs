/** The inspector of a stage: what it was given, and what each of its steps found. */

import { h, put } from "./dom.mjs";
import { details } from "./evidence.mjs";
import { place, track } from "./flow.mjs";
import * as prompts from "./prompts.mjs";
import { given } from "./stages.mjs";
import { ms, t } from "./words.mjs";

/** Draws anew only what has changed since: what is unfolded in it stays so. */
export function inspect(row) {
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

/** One step: its name in the graph, its time, what it sent to a language model, what it found. */
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
  return h("details", { class: "one-step", open: tells, data: { step: step.name } }, name, h("div", { class: "output" }, sent, ...details(detail)));
}
