/** The answer as it is written, then with citations that lead to what they rest on. */

import { byId, h, put } from "./dom.mjs";
import { picture } from "./pictures.mjs";
import { bare, changes, joined, show } from "./rewriting.mjs";
import * as searched from "./searched.mjs";
import * as sources from "./sources.mjs";
import { knows, said, t } from "./words.mjs";

const BRIEF = 160; // characters of an answer that is set larger
let shown = { drawing: null, cited: null, wasLive: false, nodes: new Map() };

export function render(run) {
  if (shown.drawing !== run.drawing) {
    shown = { drawing: run.drawing, cited: null, wasLive: false, nodes: new Map() };
    for (const id of ["answer", "citations", "retracted", "searched"]) put(byId(id));
    for (const id of ["basis", "missing", "sources"]) byId(id).hidden = true;
  }
  const box = byId("answer");
  box.setAttribute("aria-busy", String(!run.done));
  retracted(run);
  if (run.answer) {
    if (shown.cited !== run.answer) settle(run);
    return;
  }
  shown.wasLive = true;
  stream(run, box);
}

/** Text that comes is appended to what is there, or rewrites the draft that was taken back. */
function stream(run, box) {
  const standing = run.standing;
  const former = formerOf(run);
  if (former && standing.length <= 1) {
    shown.nodes.clear();
    if (!box.firstChild?.classList.contains("rewriting")) put(box, h("p", { class: "rewriting" }));
    return show(box.firstChild, joined(former.text, standing[0]?.text ?? "", false));
  }
  for (const [round, node] of shown.nodes) {
    if (standing.includes(round)) continue;
    node.remove();
    shown.nodes.delete(round);
  }
  for (const round of standing) {
    if (!shown.nodes.has(round)) shown.nodes.set(round, box.appendChild(h("p", {}, "")));
    const text = shown.nodes.get(round).firstChild;
    if (text.length < round.text.length) text.appendData(round.text.slice(text.length));
  }
}

/** The draft that was taken back last. */
const formerOf = (run) => [...run.rounds.values()].findLast(({ reason, text }) => reason !== null && text);

function retracted(run) {
  const struck = [...run.rounds.values()].filter(({ reason, text }) => reason !== null && text);
  const box = byId("retracted");
  if (box.childElementCount === struck.length) return;
  for (const { round, text, reason } of struck.slice(box.childElementCount)) {
    const title = h("summary", {}, t("draftRetracted", round), h("span", { class: "soft" }, ` ${why(reason)}`));
    box.append(h("details", { class: "struck" }, title, h("del", {}, text)));
  }
}

const why = (reason) => (knows(`stopped.${reason}`) ? t(`stopped.${reason}`) : said("REASONS", reason, reason));

function settle(run) {
  const { answer } = run;
  shown.cited = answer;
  const pictures = (answer.images ?? []).map(picture);
  const former = shown.wasLive && formerOf(run);
  const numbers = sources.numbering(answer);
  const text = cited(answer, numbers, former && changes(former.text, answer.answer));
  byId("answer").className = "";
  put(byId("answer"), h(isQuoted(answer) ? "blockquote" : "p", {}, ...text), ...pictures);
  if (answer.verdict === "abstained") return searched.show(answer);
  if (answer.answer.length <= BRIEF) byId("answer").className = "brief";
  put(byId("basis"), basis(answer)).hidden = false;
  const unsaid = (answer.missing ?? []).filter((it) => !answer.answer.includes(it.replace(/[?？]$/, "")));
  put(byId("missing"), t("missing", unsaid.join("; "))).hidden = !unsaid.length;
  return sources.show(answer, numbers);
}

/**
 * The answer in pieces: sentences that rest on a citation know its number, and `[n]` is a button
 * but in code. Of a draft that was just rewritten, what was taken back is seen once more, and leaves.
 * Spans count characters, which are not always one unit of a JavaScript string.
 */
export function cited({ answer, citations, models, sentences = [] }, numbers, changed = null) {
  const signs = Array.from(answer);
  const doubted = sentences.filter((it) => it.label === "unsupported" || it.label === "contradicted");
  const bounds = doubted.flatMap((it) => [it.start, it.end]);
  const { removed, added } = changed || { removed: [], added: [] };
  const moved = [...added.flat(), ...removed.map((it) => it.at)];
  const cuts = new Set([0, signs.length, ...bounds, ...moved, ...citations.flatMap((it) => it.spans.flat())]);
  const places = [...cuts].sort((a, b) => a - b).filter((at) => at <= signs.length);
  // Of quotations in a row from one source, the last carries its number.
  const repeated = isQuoted({ models, citations }) ? sentences.filter((it, at) => String(it.citations) === String(sentences[at + 1]?.citations)) : [];
  const turns = new Set(sentences.filter((it, at) => at && String(it.citations) !== String(sentences[at - 1].citations)).map((it) => it.start));
  const leaving = (at) => removed.filter((it) => it.at === at).map(takenBack);
  const pieces = places.slice(1).map((end, index) => {
    const start = places[index];
    const on = citations.filter((it) => it.spans.some(([a, b]) => a <= start && end <= b));
    const carried = on.map((it) => it.n).join(" ");
    const label = doubted.find((it) => it.start <= start && end <= it.end)?.label;
    const isNew = added.some(([a, b]) => a <= start && end <= b);
    const kinds = [label && "doubted", isNew && "renewed"].filter(Boolean).join(" ");
    const own = signs.slice(start, end).join("");
    const text = repeated.some((it) => it.start <= start && end <= it.end) ? [bare(own)] : marked(own, numbers);
    const gap = turns.has(start) && signs[start - 1] !== "\n" ? h("span", { class: "gap" }) : null;
    return [gap, leaving(start), h("span", { data: { carried }, class: kinds || null, title: label && t("verdict.unsupported") }, ...text)];
  });
  return [...pieces, leaving(signs.length)];
}

/** A sentence that was taken back, where it stood: to be seen, no part of the answer's text. */
function takenBack({ text }) {
  const gone = h("span", { class: "leaves", "aria-hidden": "true", data: { text } });
  gone.addEventListener("animationend", () => gone.remove());
  return gone;
}

function marked(text, numbers) {
  return text.split(/(`+[^`\n]+`+|\[\d+\][.,;:!?。，；：！？、）]*)/).map((piece) => {
    const [, n, mark] = /^\[(\d+)\](.*)$/.exec(piece) ?? [];
    const number = n && numbers.get(Number(n));
    if (!number) return piece;
    const cite = h("button", { class: "cite", "aria-label": t("openCitation", number), data: { cite: n } }, number);
    return mark ? h("span", { class: "unbroken" }, cite, mark) : cite;
  });
}

/** Whether it is in its sources' own words: what they say of themselves is no judgement of ours. */
export const isQuoted = ({ models, citations }) => models.generator === "extractive" && citations.length > 0;

/** What the verdict rests on, in one sentence; before it, whose words the answer is in. */
function basis(answer) {
  const { verdict, citations } = answer;
  const judged = (answer.sentences ?? []).filter((it) => it.label && it.label !== "not_checked");
  const supported = judged.filter((it) => it.label === "supported").length;
  const isWhole = supported === judged.length && ["supported", "partly"].includes(verdict);
  const key = isWhole ? (supported === 1 ? "one" : "supported") : verdict;
  const counts = key === "partly" ? [supported, judged.length] : [supported, t("sources", citations.length)];
  return (isQuoted(answer) ? `${t("basis.quoted")} ` : "") + t(`basis.${key}`, ...counts);
}
