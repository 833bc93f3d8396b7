/** Where no answer was found: what was searched, and the passages that came nearest. */

import { byId, h, put } from "./dom.mjs";
import * as sources from "./sources.mjs";
import { best } from "./stages.mjs";
import { score, t } from "./words.mjs";

const NEAREST = 3;

export function show(answer) {
  const { documents } = answer;
  put(byId("searched"), ...[...local(answer), ...web(answer)].map((it) => h("li", {}, it)));
  sources.nearest(documents.slice(0, NEAREST));
}

function local({ documents, thresholds, action, retrieval }) {
  if (retrieval && !retrieval.decision) return [t("searched.notNeeded")];
  if (!documents.length) return [t("searched.nothing")];
  const isBelow = action === "incorrect" && thresholds;
  const passages = t("passagesOf", documents.length);
  return [isBelow ? t("searched.below", passages, score(best(documents)), score(thresholds.lower)) : t("searched.local", passages)];
}

/** Whether the web was searched, and whether it could be reached. */
function web({ degraded, rewritten_query: query, web_results: pages, usage }) {
  const failed = degraded.find((it) => it.component === "web_search");
  if (failed) return [h("span", { title: failed.reason }, query ? t("searched.unreachableFor", query) : t("searched.unreachable"))];
  if (!usage.web_searches) return [t("searched.noWeb")];
  return [t("searched.web", query ?? "", t("webPages", pages.length))];
}
