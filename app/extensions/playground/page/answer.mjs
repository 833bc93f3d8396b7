/** The answer as it is written, then with citations that lead to what they rest on. */

import { byId, h, put, webAddress } from "./dom.mjs";
import { picture } from "./pictures.mjs";
import { changes, joined, show } from "./rewriting.mjs";
import { knows, said, score, t } from "./words.mjs";

let shown = { drawing: null, cited: null, wasLive: false, nodes: new Map() };

export function render(run) {
  if (shown.drawing !== run.drawing) {
    shown = { drawing: run.drawing, cited: null, wasLive: false, nodes: new Map() };
    put(byId("answer"));
    put(byId("citations"));
    put(byId("retracted"));
    byId("trust").hidden = true;
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
  shown.cited = run.answer;
  const pictures = (run.answer.images ?? []).map(picture);
  const former = shown.wasLive && formerOf(run);
  put(byId("answer"), h(isQuoted(run.answer) ? "blockquote" : "p", {}, ...cited(run.answer, former && changes(former.text, run.answer.answer))), ...pictures);
  put(byId("citations"), ...run.answer.citations.map(card));
  put(byId("trust"), trust(run.answer)).hidden = false;
  byId("trust").className = `trust ${run.answer.verdict}`;
}

/**
 * The answer in pieces: sentences that rest on a citation know its number, and `[n]` is a button
 * but in code. Of a draft that was just rewritten, what was taken back is seen once more, and leaves.
 * Spans count characters, which are not always one unit of a JavaScript string.
 */
function cited({ answer, citations, sentences = [] }, changed) {
  const signs = Array.from(answer);
  const doubted = sentences.filter((it) => it.label === "unsupported" || it.label === "contradicted");
  const bounds = doubted.flatMap((it) => [it.start, it.end]);
  const { removed, added } = changed || { removed: [], added: [] };
  const moved = [...added.flat(), ...removed.map((it) => it.at)];
  const cuts = new Set([0, signs.length, ...bounds, ...moved, ...citations.flatMap((it) => it.spans.flat())]);
  const places = [...cuts].sort((a, b) => a - b).filter((at) => at <= signs.length);
  const numbers = new Set(citations.map((it) => it.n));
  const leaving = (at) => removed.filter((it) => it.at === at).map(takenBack);
  const pieces = places.slice(1).map((end, index) => {
    const start = places[index];
    const on = citations.filter((it) => it.spans.some(([a, b]) => a <= start && end <= b));
    const carried = on.map((it) => it.n).join(" ");
    const label = doubted.find((it) => it.start <= start && end <= it.end)?.label;
    const isNew = added.some(([a, b]) => a <= start && end <= b);
    const kinds = [label && "doubted", isNew && "renewed"].filter(Boolean).join(" ");
    const text = marked(signs.slice(start, end).join(""), numbers);
    return [leaving(start), h("span", { data: { carried }, class: kinds || null, title: label && t("verdict.unsupported") }, ...text)];
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
    if (!n || !numbers.has(Number(n))) return piece;
    const label = t("openCitation", n);
    const cite = h("button", { class: "cite", "aria-label": label, onclick: () => open(Number(n)) }, n);
    return mark ? h("span", { class: "unbroken" }, cite, mark) : cite;
  });
}

/** A source as a card: pointed at it shows its passage, pressed it opens the document there. */
function card({ n, strip_id: strip, title, source, text, score: grade, origin }) {
  const face = [
    h("span", { class: "number" }, n),
    h("span", { class: "title" }, title || source),
    h("span", { class: "where soft" }, `${t(`origin.${origin}`)} · ${score(grade)}`),
  ];
  const left = ({ target }) => {
    target.parentElement.classList.remove("open");
    light(null);
  };
  const on = { onfocus: () => light(n), onpointerenter: () => light(n), onblur: left, onpointerleave: left };
  const shared = { class: "source-card", id: `citation-${n}`, "aria-describedby": `passage-${n}`, ...on };
  const web = origin === "web" ? webAddress(source) : null;
  const kind = web ? { href: web, rel: "noopener noreferrer nofollow", target: "_blank" } : { href: `#document=${strip.split("#")[0]}` };
  const it = origin === "web" && !web ? h("div", { ...shared, tabindex: 0 }, ...face) : h("a", { ...shared, ...kind }, ...face);
  const passage = h("div", { class: "passage", id: `passage-${n}` }, h("p", {}, text), h("p", { class: "soft" }, source));
  return h("li", { class: "citation" }, it, passage);
}

/** Leads to a source, whose sentences are lit while it has the focus. */
function open(n) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const it = byId(`citation-${n}`);
  it.focus({ preventScroll: true });
  it.parentElement.classList.add("open");
  it.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
}

/** The sentences that rest on a source are lit. */
function light(n) {
  for (const piece of byId("answer").querySelectorAll("[data-carried]")) {
    piece.classList.toggle("lit", piece.dataset.carried.split(" ").includes(String(n)));
  }
}

/** Whether it is in its sources' own words: what they say of themselves is no judgement of ours. */
export const isQuoted = ({ models, citations }) => models.generator === "extractive" && citations.length > 0;

/** Why the answer can be trusted, or not, in one sentence; before it, whose words it is in. */
function trust(answer) {
  const { verdict, sentences = [], citations, missing = [] } = answer;
  const supported = sentences.filter((it) => it.label === "supported").length;
  const counts = verdict === "partly" ? [supported, sentences.length] : [sentences.length, citations.length];
  const gaps = missing.length ? ` ${t("missing", missing.join("; "))}` : "";
  return (isQuoted(answer) ? `${t("trust.quoted")} ` : "") + t(`trust.${verdict}`, ...counts) + gaps;
}
