/** What a run's steps sent to language models, fetched once somebody looks. */

import { read } from "./api.mjs";
import { h } from "./dom.mjs";
import { knows, ms, t } from "./words.mjs";

const MOST_KEPT = 4;
const kept = new Map(); // run id -> {steps: as many as there were when they were fetched, prompts}

function promptsOf(run) {
  const known = kept.get(run.id);
  if (known && known.steps >= run.log.length) return known.prompts;
  const prompts = read(`runs/${run.id}/prompts`).then((body) => body.prompts);
  prompts.catch(() => kept.delete(run.id));
  if (kept.size >= MOST_KEPT) kept.clear();
  kept.set(run.id, { steps: run.log.length, prompts });
  return prompts;
}

/** Puts the prompts of each drawn step above what the step found. */
export async function fill(box, run) {
  if (!run.id || run.answer?.usage.llm_calls === 0) return;
  const prompts = await promptsOf(run).catch(() => []);
  for (const place of box.querySelectorAll(".prompts")) {
    const own = prompts.filter(({ step }) => String(step) === place.dataset.event);
    if (place.childElementCount === own.length) continue;
    place.replaceChildren(...own.map(drawn));
    place.closest("details").open = true;
  }
}

function drawn({ model, took_ms: took, input_tokens: sent, output_tokens: got, messages }) {
  const tokens = sent === null ? null : t("tokensOf", sent, got);
  const facts = [model, tokens, ms(took)].filter(Boolean).join(" · ");
  const title = h("summary", {}, t("prompt"), " ", h("span", { class: "soft" }, facts));
  const parts = messages.flatMap(({ role, text }) => [
    h("h4", {}, knows(`role.${role}`) ? t(`role.${role}`) : role),
    h("pre", { tabindex: 0 }, text),
  ]);
  return h("details", { class: "prompt" }, title, h("div", { class: "part" }, ...parts));
}
