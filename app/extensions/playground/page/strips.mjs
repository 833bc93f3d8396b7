/** Knowledge strips as bars: graded one by one, the kept ones handed to the draft. */

import { h } from "./dom.mjs";
import { t } from "./words.mjs";

/** By stage: the step that grades its strips. */
export const GRADED_BY = { refine: "refine", web: "select_web_strips" };
const BETWEEN_MS = 60;
const MOVES_MS = 550;

/** As they are graded, the kept ones taller. */
export function graded(box, run, step) {
  const ended = run.steps.findLast((it) => it.name === step && it.detail.strips);
  const all = ended?.detail.strips ?? run.progress.get(step)?.items ?? [];
  bars(box, all, (it) => (it.kept ? "strip kept" : "strip"));
}

/** Those the draft is given; while the run goes on they are seen to move there. */
export function handed(box, run, flow) {
  const kept = (run.found.strips ?? []).filter((it) => it.kept);
  const cited = new Set((run.answer?.citations ?? []).map((it) => it.strip_id));
  const before = box.childElementCount;
  bars(box, kept, (it) => (cited.has(it.id) ? "strip kept cited" : "strip kept"));
  box.title = kept.length ? t("in.draft", kept.length) : "";
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (before || !kept.length || run.answer || isCalm || !box.checkVisibility()) return;
  const from = Object.keys(GRADED_BY).flatMap((stage) => [...flow.querySelectorAll(`[data-stage=${stage}] .strip.kept`)]);
  const starts = from.map((it) => it.getBoundingClientRect());
  [...box.children].forEach((bar, index) => starts[index] && move(bar, starts[index], index));
}

function move(bar, start, index) {
  const end = bar.getBoundingClientRect();
  const there = `translate(${start.x - end.x}px, ${start.y - end.y}px)`;
  bar.style.animation = "none";
  bar.animate([{ transform: there }, { transform: "none" }], { duration: MOVES_MS, delay: index * BETWEEN_MS, easing: "ease-in-out", fill: "backwards" });
}

function bars(box, all, kindOf) {
  box.classList.add("strips-board");
  all.forEach((it, index) => {
    const bar = box.children[index] ?? box.appendChild(h("span"));
    const kind = kindOf(it);
    if (bar.className !== kind) bar.className = kind;
  });
}
