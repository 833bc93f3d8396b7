/** The run that is shown: begun, followed, cancelled, opened again, forked; and drawn. */

import { Problem, breather, call, read } from "./api.mjs";
import * as answer from "./answer.mjs";
import * as conversation from "./conversation.mjs";
import * as documents from "./documents.mjs";
import { atNextFrame, byId, put } from "./dom.mjs";
import * as facts from "./facts.mjs";
import * as feedback from "./feedback.mjs";
import * as flow from "./flow.mjs";
import { follow } from "./follow.mjs";
import * as options from "./options.mjs";
import * as pictures from "./pictures.mjs";
import * as replay from "./replay.mjs";
import { bare } from "./rewriting.mjs";
import { Run } from "./run.mjs";
import { best, stageOf } from "./stages.mjs";
import * as uploads from "./uploads.mjs";
import { board } from "./what_if.mjs";
import * as words from "./words.mjs";

const { t } = words;
const CUT_SHORT = new Set(["max_critic", "budget", "deadline", "cancelled"]);

let run = null;
let replayed = null; // the same run as it was after some of its events
let leaving = new AbortController();
let opening = new AbortController();
let folded = null; // {run, done} as it was folded last
let host = {}; // {named(workflow), failed(error), askForKey(error), drawGraph(run)}

export const current = () => run;

export function wire(page) {
  host = page;
  replay.wire((past) => {
    replayed = past;
    draw();
  });
}

export function draw() {
  atNextFrame("run", () => {
    if (!run) return;
    const shown = replayed ?? run;
    byId("how").hidden = !run.steps.length;
    byId("why").hidden = !run.steps.some((step) => step.name === "grade");
    if (!byId("graph-view").hidden) host.drawGraph(shown);
    flow.render(shown, run.former);
    board(byId("evidence"), shown, fork);
    answer.render(shown);
    facts.render(run);
    byId("turn-question").textContent = run.question;
    byId("tools").hidden = !run.answer;
    swap(byId("ask"), byId("cancel"));
    byId("thread").hidden = !run.thread;
    showState();
    showFormer();
    showVerdict(shown.answer ?? {});
    byId("why-brief").textContent = evidence(shown);
    fold();
    replay.offer(run);
    if (run.done && !run.judged) {
      run.judged = true;
      feedback.ask(run);
    }
  });
}

/** One stands in the other's place, and so does the focus. */
function swap(ask, cancel) {
  const at = document.activeElement;
  ask.hidden = !run.done;
  cancel.hidden = run.done;
  if (at.hidden && (at === ask || at === cancel)) (run.done ? ask : cancel).focus();
}

/** The steps are unfolded while the run goes on, and folded once it is over. */
function fold() {
  if (folded?.run === run && folded.done === run.done) return;
  folded = { run, done: run.done };
  byId("how").open = byId("why").open = !run.done;
}

function showState() {
  const error = run.error?.detail ?? (run.lost ? t(run.lost) : "");
  put(byId("failed"), error).hidden = !error;
  const said = error ? "" : run.done ? done() : run.broken ? t("stateLost") : working();
  if (byId("state").textContent !== said) byId("state").textContent = said;
  byId("turn").classList.toggle("working", !run.done);
  const meter = byId("step-progress");
  const going = run.now && run.progress.get(run.now.name);
  meter.hidden = run.done;
  if (going) Object.assign(meter, { max: going.total, value: going.done });
  else meter.removeAttribute("value");
}

/** One chip about the answer, and how likely it is right where that is known. */
function showVerdict({ verdict, confidence = null }) {
  byId("verdict").className = `chip ${verdict ?? ""}`;
  byId("verdict").textContent = verdict ? t(`verdict.${verdict}`) : "";
  byId("confidence").textContent = words.likely(confidence);
  byId("confidence").title = confidence === null ? "" : t("confidence", confidence.toFixed(2));
}

/** What the grades came to, in a line. */
function evidence({ found: { action, thresholds, documents } }) {
  if (!action || !thresholds || !documents?.length) return "";
  return [t(`action.${action}`), t("bestGrade", words.score(best(documents))), t("upperIs", words.score(thresholds.upper))].join(" · ");
}

/** The answer of the run that this one was forked from stands beside its own. */
function showFormer() {
  const { former } = run;
  byId("former").hidden = !former?.answer;
  if (!former?.answer) return;
  const { verdict, action } = former.answer;
  byId("former-answer").textContent = bare(former.answer.answer);
  byId("former-link").href = run.done ? `#diff=${former.id},${run.id}` : `#run=${former.id}`;
  const judged = [action && t(`action.${action}`), t(`verdict.${verdict}`)].filter(Boolean).join(" · ");
  byId("former-link").textContent = `${judged} — ${t(run.done ? "compareRuns" : "formerRun")}`;
}

/** How long it took, and what cut it short. */
function done() {
  const stopped = run.answer?.stopped_by;
  return [words.ms(run.span), CUT_SHORT.has(stopped) && t(`stopped.${stopped}`)].filter(Boolean).join(" · ");
}

const working = () => (run.cancelling ? t("stateCancelling") : run.now ? t(`doing.${stageOf(run.now.path)}`) : t("stateAsking"));

/** Makes a run the one that is shown; what was followed before is left to itself. */
function show(shown, earlier) {
  leaving.abort();
  opening.abort();
  leaving = new AbortController();
  replay.stop();
  run = shown;
  replayed = null;
  put(byId("feedback"));
  byId("copied").textContent = "";
  if (byId("reader").open) byId("reader").close();
  reveal();
  conversation.before(shown, earlier).catch(host.failed);
  draw();
  return leaving.signal;
}

/** The conversation in place of the empty page or of a comparison. */
function reveal() {
  byId("welcome").hidden = byId("versus").hidden = true;
  byId("turn").hidden = byId("turns").hidden = false;
  uploads.place("ask");
}

/** The question stands at the top, and the answer below it. */
function intoView() {
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const behavior = calm ? "auto" : "smooth";
  requestAnimationFrame(() => {
    if (byId("turns").childElementCount) byId("turn").scrollIntoView({ block: "start", behavior });
    else scrollTo({ top: 0, behavior });
  });
}

/** Follows a run and draws it; what goes wrong is its end here, unless another one is shown. */
async function see(followed, first, signal) {
  try {
    await follow(followed, await first, signal, (event) => {
      if (event?.name === "run") opened(followed);
      draw();
    });
  } catch (error) {
    if (run !== followed || signal.aborted) return;
    followed.done = true;
    followed.thread ??= followed.previous;
    const problems = error.errors ?? [];
    const others = options.complain(problems);
    const message = messageOf(error, followed.question);
    followed.error = { detail: others.length || !problems.length ? message : `${t("options")}: ${message}` };
    draw();
    host.askForKey(error);
  }
}

function opened(followed) {
  history.pushState(null, "", `#run=${followed.id}`);
  if (followed.cancelling) stop(followed);
}

export async function ask() {
  const question = byId("question").value.trim();
  if (!question || (run && !run.done)) return;
  const [image] = await Promise.all([pictures.chosen(), words.learn()]);
  const thread = run?.thread && byId("continue").checked ? run.thread : undefined;
  const given = options.given();
  const json = { question, workflow: byId("workflow").value, stream: true, detach: true, ...documents.chosen() };
  if (image) Object.assign(json, { image, workflow: "illustrate" });
  if (thread) json.thread_id = thread;
  if (Object.keys(given).length) json.options = given;
  options.complain([]);
  uploads.close();
  const begun = new Run(question);
  Object.assign(begun, { workflow: json.workflow, previous: run?.thread, thread: thread ?? null });
  if (!thread) conversation.clear();
  const signal = show(begun, run);
  intoView();
  await see(begun, call("ask", { json, signal }), signal);
  if (begun.answer && run === begun) {
    byId("question").value = "";
    pictures.clear();
  }
}

/** Runs again from the grades with other thresholds; the former run stays beside it. */
async function fork(changed) {
  const former = run;
  const forked = new Run(former.question);
  Object.assign(forked, { workflow: former.workflow, former });
  const signal = show(forked);
  intoView();
  const json = { step: "grade", options: changed, stream: true, detach: true };
  await see(forked, call(`runs/${former.id}/fork`, { json, signal }), signal);
}

/** A run without a name yet is cancelled when it has one; the second time it is left. */
export function cancel() {
  if (!run || run.done) return;
  if (run.cancelling && !run.id) {
    leaving.abort();
    run.thread ??= run.previous;
    Object.assign(run, { done: true, lost: "runLost" });
  } else if (!run.cancelling && run.id) stop(run);
  run.cancelling = true;
  draw();
}

function stop(wanted) {
  call(`runs/${wanted.id}/cancel`, { method: "POST" }).catch((error) => {
    wanted.cancelling = false;
    host.failed(error);
  });
}

/** No run that is on its way here becomes the one that is shown. */
export function forget() {
  opening.abort();
  opening = new AbortController();
}

/** A kept run, through the same events; one under way is followed further. */
export async function open(id) {
  if (run?.id === id && !run.lost && !run.error) return reveal();
  const { signal: late } = opening;
  const shown = await keptRun(id, late);
  await words.learn();
  if (shown.origin) shown.former = await keptRun(shown.origin.run_id, late).catch(() => null);
  if (late.aborted) return;
  const signal = show(shown);
  byId("workflow").value = shown.workflow;
  if (!shown.done) await see(shown, null, signal);
}

export async function keptRun(id, signal) {
  const kept = await read(`runs/${id}`, { signal });
  const shown = new Run(kept.question);
  const { workflow, thread_id: thread, feedback: said, request } = kept;
  Object.assign(shown, { id, workflow, thread, feedback: said, origin: request.from_run ?? null });
  const breathe = breather();
  for (const { number, name, data, at_ms: at } of kept.events) {
    shown.apply({ id: number, name, data, at });
    await breathe();
  }
  return shown;
}

export const messageOf = (error, text = "") => (error instanceof Problem ? words.refusal(text, error) : t("unreachable"));

/** Everything is drawn anew, in another language. */
export function redraw() {
  if (run) Object.assign(run, { drawing: {}, judged: false });
  if (replayed) replayed.drawing = {};
  conversation.render();
  draw();
}
