/** The answer as it is written, then with citations that lead to what they rest on. */

import { byId, h, link, put } from "./dom.mjs";
import { knows, said, score, t } from "./words.mjs";

let shown = { drawing: null, cited: null, nodes: new Map() };

export function render(run) {
  if (shown.drawing !== run.drawing) {
    shown = { drawing: run.drawing, cited: null, nodes: new Map() };
    put(byId("answer"));
    put(byId("citations"));
    put(byId("retracted"));
  }
  const box = byId("answer");
  box.setAttribute("aria-busy", String(!run.done));
  retracted(run);
  if (run.answer) {
    if (shown.cited !== run.answer) settle(run);
    return;
  }
  stream(run, box);
}

/** Text that comes is appended to what is there; a round that was retracted leaves. */
function stream(run, box) {
  const standing = run.standing;
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
  shown.cited = run.answer;
  put(byId("answer"), h("p", {}, ...cited(run.answer)));
  put(byId("citations"), ...run.answer.citations.map(card));
}

/**
 * The answer in pieces: sentences that rest on a citation know its number, and `[n]` is a button
 * but in code.
 * Spans count characters, which are not always one unit of a JavaScript string.
 */
function cited({ answer, citations, sentences = [] }) {
  const signs = Array.from(answer);
  const doubted = sentences.filter((it) => it.label === "unsupported" || it.label === "contradicted");
  const bounds = doubted.flatMap((it) => [it.start, it.end]);
  const cuts = new Set([0, signs.length, ...bounds, ...citations.flatMap((it) => it.spans.flat())]);
  const places = [...cuts].sort((a, b) => a - b).filter((at) => at <= signs.length);
  const numbers = new Set(citations.map((it) => it.n));
  return places.slice(1).map((end, index) => {
    const start = places[index];
    const on = citations.filter((it) => it.spans.some(([a, b]) => a <= start && end <= b));
    const carried = on.map((it) => it.n).join(" ");
    const label = doubted.find((it) => it.start <= start && end <= it.end)?.label;
    return h("span", { data: { carried }, class: label && "doubted", title: label && t("verdict.unsupported") }, ...marked(signs.slice(start, end).join(""), numbers));
  });
}

function marked(text, numbers) {
  return text.split(/(`+[^`\n]+`+|\[\d+\])/).map((piece) => {
    const n = /^\[(\d+)\]$/.exec(piece)?.[1];
    if (!n || !numbers.has(Number(n))) return piece;
    const label = t("openCitation", n);
    return h("button", { class: "cite", "aria-label": label, onclick: () => open(Number(n)) }, n);
  });
}

function card({ n, strip_id: strip, title, source, text, score: grade, origin }) {
  const summary = h(
    "summary",
    {},
    h("span", { class: "number" }, n),
    h("span", { class: "title" }, title || source),
    h("span", { class: "grade" }, score(grade)),
  );
  const where = h("p", { class: "soft" }, t(`origin.${origin}`), " · ", origin === "web" ? link(source) : h("a", { class: "source", href: `#document=${strip.split("#")[0]}` }, source));
  const it = h("details", { class: "citation", id: `citation-${n}` }, summary, h("blockquote", {}, text), where);
  it.addEventListener("toggle", () => light());
  return h("li", {}, it);
}

/** Opens a citation and leads there. */
function open(n) {
  const it = byId(`citation-${n}`);
  it.open = true;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  it.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
  it.querySelector("summary").focus({ preventScroll: true });
}

/** The sentences that rest on an open citation are lit. */
function light() {
  const opened = [...document.querySelectorAll(".citation[open]")].map((it) => it.id.split("-")[1]);
  for (const piece of byId("answer").querySelectorAll("[data-carried]")) {
    const carried = piece.dataset.carried.split(" ");
    piece.classList.toggle("lit", opened.some((n) => carried.includes(n)));
  }
}
