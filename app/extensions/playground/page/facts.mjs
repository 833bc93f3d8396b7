/** What the run was made with and what it took. */

import { byId, h, put } from "./dom.mjs";
import { ms, t } from "./words.mjs";

let shown = null;

export function render(run) {
  const card = byId("facts-card");
  card.hidden = !run.answer;
  if (!run.answer || shown === run.drawing) return;
  shown = run.drawing;
  const { models, usage, stopped_by: stopped, workflow } = run.answer;
  const rows = [
    ["workflow", workflow],
    ["stopped_by", t(`stopped.${stopped}`)],
    ["total", ms(run.span)],
    ...Object.entries(models),
    ["llm_calls", usage.llm_calls],
    ["tokens", usage.llm_calls ? `${usage.input_tokens} / ${usage.output_tokens}` : null],
    ["scored_pairs", usage.scored_pairs],
    ["web_searches", usage.web_searches],
    ["run", run.id],
    ["thread", run.thread],
  ];
  const pairs = rows.filter(([, value]) => value !== null && value !== "");
  put(byId("facts"), ...pairs.map(([name, value]) => h("div", {}, h("dt", {}, t(name)), h("dd", {}, String(value)))));
}
