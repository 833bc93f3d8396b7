/** What steps found, each kind in its own form; what is not known here is shown as JSON. */

import { h, link } from "./dom.mjs";
import { list } from "./grades.mjs";
import { score, t } from "./words.mjs";

const SHOWN_ELSEWHERE = new Set(["thresholds", "action", "citations", "answer", "stopped_by", "generator", "grades"]);

/** The detail of one step; what is known and empty is left out. */
export function details(detail) {
  const known = Object.entries(detail).filter(([, value]) => value !== null && value?.length !== 0);
  const parts = known.map(([name, value]) => {
    if (name === "critique") return section(name, [value], detail);
    return section(name, value, detail) ?? (SHOWN_ELSEWHERE.has(name) ? short(name, value) : raw(name, value));
  });
  return parts.some(Boolean) ? parts : [h("p", { class: "soft nothing" }, t("nothingFound"))];
}

function section(name, value, all) {
  const form = FORMS[name];
  if (!form || value === null || value === undefined || value.length === 0) return null;
  const body = form(value, all);
  return body ? h("section", { class: `part ${name}` }, ...body) : false;
}

const head = (key, ...beside) => h("h3", {}, t(key), beside.length ? h("span", { class: "soft" }, ...beside) : null);
const numbers = (it) =>
  ["relevance", "support", "utility", "score"].map((name) =>
    h("span", { class: "number-of" }, `${t(name)} `, h("b", {}, score(it[name]))),
  );

const FORMS = {
  degraded: (entries) => entries.map((it) => h("p", { class: "notice" }, h("b", {}, `${t("degraded")}: ${it.component}`), ` — ${it.reason}`)),
  standalone_question: (text) => [head("standalone_question"), h("p", {}, text)],
  queries: (texts) => [head("queries"), h("ul", { class: "plain" }, ...texts.map((it) => h("li", {}, it)))],
  retrieval: ({ decision, probability }) => [
    head("retrieval", t(decision ? "needed" : "notNeeded"), ` · p ${probability.toFixed(2)}`),
  ],
  documents: (passages, { action, thresholds }) => [
    action
      ? head("grades", h("span", { class: `action ${action}` }, t(`action.${action}`)))
      : head("passages"),
    list(passages, action ? thresholds : null),
  ],
  strips,
  rewritten_query: (text) => [head("rewritten_query"), h("p", {}, h("code", {}, text))],
  web_results: (pages) => [
    head("web_results"),
    h("ul", { class: "rows" }, ...pages.map((it) => h("li", {}, h("span", { class: "grade" }, score(it.score)), h("div", {}, h("b", {}, it.title), " ", link(it.url))))),
  ],
  candidates: (drafts) => {
    const written = drafts.filter((it) => it.answer);
    return written.length && [head("candidates"), h("ol", { class: "rows" }, ...written.map(draft))];
  },
  critique: (rounds) => [head("critique"), h("ol", { class: "rows" }, ...rounds.map(round))],
  compression: (it) => [raw("compression", it)],
};

function strips(all, { thresholds }) {
  const sorted = all.toSorted((a, b) => b.score - a.score);
  const kept = sorted.filter((it) => it.kept);
  const dropped = sorted.filter((it) => !it.kept);
  const counted = thresholds ? t("keptOf", kept.length, all.length, score(thresholds.strip_floor)) : t("said.kept", kept.length);
  const list = (some, kind) => h("ul", { class: `rows ${kind}` }, ...some.map(strip));
  const rest = dropped.length
    ? h("details", {}, h("summary", {}, t("showDropped", dropped.length)), list(dropped, "dropped"))
    : null;
  return [head("strips", counted), list(kept, "kept"), rest];
}

const strip = (it) => h("li", {}, h("span", { class: "grade" }, score(it.score)), h("span", {}, it.text));

function draft(it) {
  const name = h("p", {}, h("b", {}, `${it.n}`), it.chosen ? h("span", { class: "tag good" }, t("chosen")) : null, ...numbers(it));
  return h("li", { class: it.chosen ? "chosen" : "" }, h("div", {}, name, h("p", { class: "text" }, it.answer)));
}

function round(it) {
  const verdict = h("span", { class: `tag ${it.accepted ? "good" : "unsure"}` }, t(it.accepted ? "accepted" : "rejected"));
  const name = h("p", {}, h("b", {}, t("round", it.round)), verdict, ...numbers(it));
  return h("li", {}, h("div", {}, name, it.criticism && h("p", { class: "text" }, it.criticism)));
}

function short(name, value) {
  if (Array.isArray(value) || value === null) return null;
  const text = typeof value === "object" ? Object.entries(value).map(([key, it]) => `${key} ${score(it)}`).join(" · ") : value;
  const said = name === "action" ? t(`action.${value}`) : name === "stopped_by" ? t(`stopped.${value}`) : String(text);
  return h("p", { class: "short" }, h("span", { class: "soft" }, `${t(name)}: `), said);
}

const raw = (name, value) => h("section", { class: "part" }, h("h3", {}, name), h("pre", {}, JSON.stringify(value, null, 2)));
