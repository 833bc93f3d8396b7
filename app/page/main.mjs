/** The page: asks, follows what happens, and opens what is kept. */

import { Problem, call, hasKey, read, setKey } from "./api.mjs";
import * as answer from "./answer.mjs";
import * as documents from "./documents.mjs";
import { atNextFrame, byId, h, put } from "./dom.mjs";
import * as evidence from "./evidence.mjs";
import * as facts from "./facts.mjs";
import { follow } from "./follow.mjs";
import * as graph from "./graph.mjs";
import * as options from "./options.mjs";
import { Run } from "./run.mjs";
import * as runs from "./runs.mjs";
import * as timeline from "./timeline.mjs";
import * as words from "./words.mjs";

const { t } = words;
const EXAMPLES = [
  "What does the upper threshold decide?",
  "How do I connect Open WebUI?",
  "知识条下限是什么？",
  "三种动作分别在什么时候发生？",
];
const THEME = "selfcrag-theme";

let workflows = [];
let run = null;
let leaving = new AbortController();
let opening = new AbortController();

const named = (name) => workflows.find((it) => it.name === name);
const selected = () => named(byId("workflow").value);

function draw() {
  atNextFrame("run", () => {
    if (!run) return;
    graph.render(run, named(run.workflow));
    timeline.render(run);
    answer.render(run);
    evidence.render(run);
    facts.render(run);
    byId("asked").textContent = run.question;
    byId("asked").hidden = !run.question;
    byId("answer-empty").hidden = Boolean(run.question);
    swap(byId("ask"), byId("cancel"));
    byId("thread").hidden = !run.thread;
    tellState();
    tell("action", run.found.action);
    tell("verdict", run.answer?.verdict);
    if (run.done && !run.judged) {
      run.judged = true;
      runs.feedback(run);
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

function tellState() {
  const error = run.error?.detail ?? (run.lost ? t(run.lost) : "");
  put(byId("failed"), error).hidden = !error;
  const said = error ? "" : run.done ? done() : run.broken ? t("stateLost") : working();
  if (byId("state").textContent !== said) byId("state").textContent = said;
}

function tell(name, value) {
  const chip = byId(name);
  chip.className = `chip ${value ?? ""}`;
  chip.textContent = value ? t(`${name}.${value}`) : "";
}

const done = () => `${t("stateDone", words.ms(run.span))} · ${t(`stopped.${run.answer?.stopped_by}`)}`;
const working = () => (run.cancelling ? t("stateCancelling") : run.now ? t("stateAt", run.now.name) : t("stateAsking"));

/** Makes a run the one that is shown; what was followed before is left to itself. */
function show(shown) {
  leaving.abort();
  opening.abort();
  leaving = new AbortController();
  run = shown;
  put(byId("feedback"));
  draw();
  return leaving.signal;
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
    const told = messageOf(error, followed.question);
    followed.error = { detail: others.length || !problems.length ? told : `${t("options")}: ${told}` };
    draw();
    askForKey(error);
  }
}

function opened(followed) {
  history.pushState(null, "", `#run=${followed.id}`);
  if (followed.cancelling) stop(followed);
}

async function ask() {
  const question = byId("question").value.trim();
  if (!question || (run && !run.done)) return;
  const thread = run?.thread && byId("continue").checked ? run.thread : undefined;
  const given = options.given();
  const json = { question, workflow: byId("workflow").value, stream: true, detach: true, ...documents.chosen() };
  if (thread) json.thread_id = thread;
  if (Object.keys(given).length) json.options = given;
  options.complain([]);
  const asked = new Run(question);
  asked.workflow = json.workflow;
  asked.previous = run?.thread;
  const signal = show(asked);
  await see(asked, call("ask", { json, signal }), signal);
  if (asked.answer && run === asked) byId("question").value = "";
}

/** A run without a name yet is cancelled when it has one; the second time it is left. */
function cancel() {
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
    failed(error);
  });
}

/** A kept run, through the same events; one under way is followed further. */
async function open(id) {
  if (run?.id === id && !run.lost && !run.error) return;
  const { signal: late } = opening;
  const kept = await read(`runs/${id}`, { signal: late });
  if (late.aborted) return;
  const shown = new Run(kept.question);
  Object.assign(shown, { id, workflow: kept.workflow, thread: kept.thread_id, feedback: kept.feedback });
  for (const { number, name, data, at_ms: at } of kept.events) shown.apply({ id: number, name, data, at });
  const signal = show(shown);
  byId("workflow").value = kept.workflow;
  if (!shown.done) await see(shown, null, signal);
}

const messageOf = (error, text = "") => (error instanceof Problem ? words.refusal(text, error) : t("unreachable"));

function failed(error) {
  if (error.name === "AbortError") return;
  put(byId("trouble"), messageOf(error)).hidden = false;
  askForKey(error);
}

/** Also where the key that is kept opens nothing. */
function askForKey({ status }) {
  if (status !== 401 && !(status === 403 && hasKey() && !workflows.length)) return;
  byId("key-form").hidden = false;
  byId("key").focus();
}

/** What the address names is what is shown. */
async function route() {
  opening.abort();
  opening = new AbortController();
  const [name, value] = location.hash.slice(1).split("=");
  const view = name === "diff" && !value ? "runs" : name === "document" ? "documents" : ["runs", "documents", "diff"].includes(name) ? name : "ask";
  for (const it of ["ask", "runs", "documents"]) {
    const isShown = it === (view === "diff" ? "runs" : view);
    byId(`${it}-view`).hidden = !isShown;
    byId(`to-${it}`).ariaCurrent = isShown ? "page" : null;
  }
  byId("diff").hidden = view !== "diff";
  byId("trouble").hidden = true;
  if (name === "run" && value) await open(value);
  else if (view === "runs") await runs.load();
  else if (view === "diff") await Promise.all([runs.load(), runs.compare(...value.split(","))]);
  else if (view === "documents") {
    await documents.load();
    if (value) await documents.open(value);
  }
}

const go = () => route().catch(failed);

async function begin() {
  const told = await read("workflows?xray=1");
  workflows = told.workflows;
  const select = byId("workflow");
  put(select, ...workflows.map((it) => h("option", { value: it.name }, it.name)));
  select.value = told.default;
  await documents.offer().catch(failed);
  await speak();
  await route();
}

/** Says everything in the chosen language. */
async function speak() {
  words.say();
  byId("language").textContent = words.current() === "zh" ? "English" : "中文";
  byId("language").lang = words.current() === "zh" ? "en" : "zh-CN";
  if (!workflows.length) return;
  await words.learn();
  options.build(selected().context_schema, (count) => {
    byId("changed").textContent = count ? t("changed", count) : "";
  });
  runs.render();
  documents.render();
  describe();
  if (run) Object.assign(run, { drawing: {}, judged: false });
  draw();
}

function describe() {
  const { name, description } = selected();
  byId("workflow-about").textContent = words.said("WORKFLOWS", name, description);
  if (!run || run.done) graph.draw(selected());
}

function theme(wanted) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = wanted ?? localStorage.getItem(THEME) ?? dark;
}

const clicked = (id, act) => byId(id).addEventListener("click", act);

function wire() {
  byId("ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  byId("question").addEventListener("keydown", (event) => {
    // While characters are composed, Enter chooses among them.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    ask();
  });
  clicked("cancel", cancel);
  byId("workflow").addEventListener("change", describe);
  clicked("compare", () => (location.hash = `diff=${runs.pair().join(",")}`));
  clicked("runs-refresh", () => runs.load().catch(failed));
  clicked("runs-more", () => runs.load(true).catch(failed));
  clicked("language", () => {
    words.choose(words.current() === "zh" ? "en" : "zh");
    speak().catch(failed);
  });
  clicked("theme", () => {
    const wanted = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    localStorage.setItem(THEME, wanted);
    theme(wanted);
  });
  byId("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const key = byId("key").value.trim();
    if (!/^[!-~]+$/.test(key)) return failed(new Problem(401, { detail: t("keyUnreadable") }));
    setKey(key);
    byId("key-form").hidden = true;
    begin().catch(failed);
  });
  const examples = EXAMPLES.map((it) =>
    h("button", { type: "button", class: "example", lang: /[一-鿿]/.test(it) ? "zh-CN" : "en" }, it),
  );
  put(byId("examples"), ...examples);
  clicked("examples", (event) => {
    if (!event.target.classList.contains("example")) return;
    byId("question").value = event.target.textContent;
    ask();
  });
  documents.wire(failed);
  addEventListener("hashchange", go);
}

theme();
wire();
words.say();
begin().catch(failed);
