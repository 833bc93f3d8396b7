/** Sources as cards numbered from 1, each with the words that the answer takes from it. */

import { byId, h, put, webAddress } from "./dom.mjs";
import * as reader from "./reader.mjs";
import { bare } from "./rewriting.mjs";
import { score, t } from "./words.mjs";

/** From 1 in the order in which the answer cites them: citation's n -> number shown. */
export function numbering({ answer, citations }) {
  const known = citations.map((it) => it.n);
  const cited = [...answer.matchAll(/\[(\d{1,3})\]/g)].map(([, n]) => Number(n)).filter((n) => known.includes(n));
  return new Map([...new Set([...cited, ...known])].map((n, index) => [n, index + 1]));
}

/** The answer's text with the numbers that are shown. */
export const renumbered = (answer, numbers = numbering(answer)) =>
  answer.answer.replace(/\[(\d{1,3})\]/g, (mark, n) => (numbers.has(Number(n)) ? `[${numbers.get(Number(n))}]` : mark));

/** The cited sources in their order, with the numbers that are shown. */
export const inOrder = ({ citations }, numbers) => citations.map((it) => ({ ...it, number: numbers.get(it.n) })).toSorted((a, b) => a.number - b.number);

/** The answer's sentences that rest on a source, without their citations. */
function sentencesOn({ answer, sentences = [] }, n) {
  const signs = Array.from(answer);
  return sentences.filter((it) => it.citations.includes(n)).map((it) => bare(signs.slice(it.start, it.end).join("")));
}

let shown = new Map(); // n -> what opens the source
let opened = null; // n of the source that is read

/** The answer's sources; a card that is pointed at lights the sentences that rest on it. */
export function show(answer, numbers) {
  const cards = inOrder(answer, numbers).map((it) => citation(it, sentencesOn(answer, it.n)));
  fill(t("sources", cards.length), cards);
}

/** The passages that came nearest to an answer, as sources; their words are fetched. */
export function nearest(passages) {
  shown = new Map();
  fill(t("nearest"), passages.map((it, index) => {
    const text = h("p", { class: "quoted" });
    if (it.origin === "internal") reader.passage(it.id).then((words) => put(text, words)).catch(() => text.remove());
    return card({ ...it, number: index + 1, where: `${it.source} · ${score(it.score)}` }, () => reader.open(it.id), text);
  }));
}

function fill(title, cards) {
  put(byId("sources-title"), title);
  put(byId("citations"), ...cards);
  byId("sources").hidden = !cards.length;
}

function citation({ n, number, strip_id: strip, title, source, text, origin }, sentences) {
  const marks = reader.places(text, sentences);
  const isWeb = origin === "web";
  const page = isWeb ? webAddress(source) : null;
  const open = () => reading(n, isWeb ? reader.show({ title, facts: source, text, marks }) : reader.open(strip.split("#")[0], sentences, text));
  shown.set(n, open);
  const quoted = h("p", { class: "quoted" }, ...reader.marked(text, marks, { isShort: true }));
  const made = card({ number, title, source, origin, where: source, page, id: strip.split("#")[0] }, open, quoted);
  const on = { pointerenter: () => light(n), pointerleave: () => light(opened), focusin: () => light(n), focusout: () => light(opened) };
  for (const [name, act] of Object.entries(on)) made.addEventListener(name, act);
  return made;
}

/** One source: its whole card leads there. */
function card({ number, title, source, where, origin, page, id }, open, quoted) {
  const face = [h("span", { class: "number" }, number), h("span", { class: "title" }, title || source)];
  const web = { href: page, rel: "noopener noreferrer nofollow", target: "_blank" };
  const local = { href: `#document=${id}`, onclick: (event) => opens(event, open) };
  const kind = page ? web : local;
  const name = { class: "source-card", id: `citation-${number}` };
  const link = origin === "web" && !page ? h("span", { ...name, tabindex: 0 }, ...face) : h("a", { ...name, ...kind }, ...face);
  return h("li", { class: "citation" }, link, h("p", { class: "where soft" }, where), quoted);
}

function opens(event, open) {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  event.stopPropagation();
  open();
}

function reading(n, shows) {
  opened = n;
  light(n);
  return shows;
}

/** The sentences that rest on a source are lit. */
function light(n) {
  for (const piece of byId("answer").querySelectorAll("[data-carried]")) {
    piece.classList.toggle("lit", piece.dataset.carried.split(" ").includes(String(n)));
  }
}

/** A number in the answer opens its source; closed, nothing is lit. `failed` hears what goes wrong. */
export function wire(failed) {
  byId("answer").addEventListener("click", ({ target }) => {
    const { cite } = target.dataset;
    if (cite) Promise.resolve(shown.get(Number(cite))?.()).catch(failed);
  });
  byId("reader").addEventListener("close", () => light((opened = null)));
}
