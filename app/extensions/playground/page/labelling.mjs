/** A question set of one's own: each question with the passage that answers it, kept by the browser. */

import { read } from "./api.mjs";
import * as documents from "./documents.mjs";
import { byId, h, put } from "./dom.mjs";
import * as reader from "./reader.mjs";
import { save } from "./share.mjs";
import { t } from "./words.mjs";

const SHOWN = 5;
const LEAST = 20; // questions from which on thresholds are proposed
const VARIANTS = [{ name: "crag", workflow: "crag", options: { web: "never" } }];
let asked = null; // {question, passages: [{source, title, text}]}

const place = () => `selfcrag-labels ${documents.chosen().collection ?? ""}`;
const rows = () => JSON.parse(localStorage.getItem(place()) ?? "[]");

function keep(all) {
  localStorage.setItem(place(), JSON.stringify(all));
  close();
}

function close() {
  asked = null;
  render();
}

export function render() {
  const all = rows();
  const without = all.filter((it) => it.answerable === false).length;
  const missing = LEAST - all.length;
  const next = missing > 0 ? t("labelMore", missing) : without && without < all.length ? t("labelReady") : t("labelBoth");
  byId("label-count").textContent = t("labelledOf", all.length - without, without, next);
  for (const id of ["label-evaluate", "label-save", "label-empty"]) byId(id).disabled = !all.length;
  put(byId("label-passages"), asked && choices(asked));
}

function choices({ question, passages }) {
  const others = [
    h("button", { type: "button", onclick: () => add({ question, answerable: false }) }, t("noneAnswers")),
    h("button", { type: "button", class: "quiet", onclick: close }, t("leaveOut")),
  ];
  const hint = h("p", { class: "soft", tabindex: -1 }, t(passages.length ? "labelHint" : "noPassage"));
  return [hint, h("ol", { class: "entries" }, ...passages.map((it) => choice(question, it))), h("div", { class: "line" }, ...others)];
}

function choice(question, { source, title, text }) {
  const words = h("p", { class: "text" }, text);
  const onclick = () => add({ question, sources: [source], ...selectedIn(words) });
  const about = h("div", {}, h("b", {}, title || source), " ", h("span", { class: "source" }, source), words);
  return h("li", {}, about, h("button", { type: "button", onclick }, t("thisAnswers")));
}

/** The words that are selected within the element, as gold. */
function selectedIn(element) {
  const selection = getSelection();
  const words = selection.toString().trim();
  return words && element.contains(selection.anchorNode) && element.contains(selection.focusNode) ? { answers: [words] } : {};
}

/** A question that is labelled again replaces its former row. */
function add(row) {
  keep([...rows().filter((it) => it.question !== row.question), row]);
  byId("label-question").value = "";
  byId("label-question").focus();
}

async function find() {
  const question = byId("label-question").value.trim();
  if (!question) return;
  const json = { question, options: { web: "never" }, ...documents.chosen() };
  const { run_id: id } = await read("search", { json }); // no language model writes an answer for it
  const { events } = await read(`runs/${id}`);
  const found = events.find((it) => it.name === "answer").data.documents;
  const local = found.filter((it) => it.origin === "internal").slice(0, SHOWN);
  const passages = await Promise.all(local.map(async (it) => ({ ...it, text: await reader.passage(it.id) })));
  asked = { question, passages };
  render();
  byId("label-passages").querySelector("p").focus();
}

const file = () => rows().map((it) => JSON.stringify(it)).join("\n");

/** `evaluate` begins an evaluation; `failed` shows an error. */
export function wire(evaluate, failed) {
  byId("label-form").onsubmit = (event) => {
    event.preventDefault();
    byId("label-form").querySelector("button").disabled = true;
    find().catch(failed).finally(() => (byId("label-form").querySelector("button").disabled = false));
  };
  byId("label-evaluate").onclick = () => evaluate({ name: t("labelOwn"), questions: file(), variants: VARIANTS }).catch(failed);
  byId("label-save").onclick = () => save(`${file()}\n`, "questions.jsonl", "application/jsonl");
  byId("label-empty").onclick = () => keep([]);
}
