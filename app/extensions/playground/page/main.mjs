/** The page: what the address names is shown, in the chosen language and theme. */

import { Problem, hasKey, read, setKey } from "./api.mjs";
import * as asking from "./asking.mjs";
import * as documents from "./documents.mjs";
import { byId, h, put } from "./dom.mjs";
import * as options from "./options.mjs";
import * as pictures from "./pictures.mjs";
import * as questions from "./questions.mjs";
import * as reader from "./reader.mjs";
import * as sources from "./sources.mjs";
import * as uploads from "./uploads.mjs";
import * as words from "./words.mjs";

const { t } = words;
const THEME = "selfcrag-theme";
const VIEWS = ["ask", "runs", "documents", "evaluations"];
const WITHIN = { diff: "runs", document: "documents" };
// What the first look needs none of is loaded when it is used.
const LATER = {
  diff: () => import("./diff.mjs"),
  evaluations: () => import("./evaluations.mjs"),
  graph: () => import("./graph.mjs"),
  runs: () => import("./runs.mjs"),
  share: () => import("./share.mjs"),
  versus: () => import("./versus.mjs"),
};
const loaded = {};

let offered = { workflows: [], default: null, language_model: false };

const named = (name) => offered.workflows.find((it) => it.name === name);
const selected = () => named(byId("workflow").value);

async function later(name) {
  if (loaded[name]) return loaded[name];
  const [module] = await Promise.all([LATER[name](), words.learn()]);
  if (!loaded[name]) module.wire?.(name === "share" ? asking.current : failed);
  return (loaded[name] = module);
}

function failed(error) {
  if (error.name === "AbortError") return;
  put(byId("trouble"), asking.messageOf(error)).hidden = false;
  askForKey(error);
}

/** Also where the key that is kept opens nothing. */
function askForKey({ status }) {
  if (status !== 401 && !(status === 403 && hasKey() && !offered.workflows.length)) return;
  byId("key-form").hidden = false;
  byId("key").focus();
}

/** What the address names is what is shown. */
async function route() {
  asking.forget();
  const [name, value] = location.hash.slice(1).split("=");
  const view = WITHIN[name] ?? (VIEWS.includes(name) ? name : "ask");
  for (const it of VIEWS) {
    byId(`${it}-view`).hidden = it !== view;
    byId(`to-${it}`).ariaCurrent = it === view ? "page" : null;
  }
  byId("diff").hidden = name !== "diff" || !value;
  byId("trouble").hidden = true;
  uploads.place(view);
  if (name !== "document" && byId("reader").open) byId("reader").close();
  if (name === "run" && value) await asking.open(value);
  else if (name === "compare" && value) await (await later("versus")).open(value.split(","));
  else if (view === "runs") await showRuns(name === "diff" && value);
  else if (view === "evaluations") await (await later("evaluations")).load();
  else if (view === "documents") {
    await documents.load();
    if (value) await reader.open(value);
  }
}

async function showRuns(pair) {
  const [runs, diff] = await Promise.all([later("runs"), pair && later("diff")]);
  await Promise.all([runs.load(), pair && diff.show(...pair.split(","))]);
}

const go = () => route().catch(failed);

async function begin() {
  offered = await read("workflows?xray=1");
  const select = byId("workflow");
  put(select, ...offered.workflows.map((it) => h("option", { value: it.name }, it.name)));
  select.value = offered.default;
  await documents.offer().catch(failed);
  await speak();
  await route();
  await offerQuestions();
}

/** Says everything in the chosen language. */
async function speak() {
  words.say();
  byId("language").textContent = words.current() === "zh" ? "English" : "中文";
  byId("language").lang = words.current() === "zh" ? "en" : "zh-CN";
  if (!offered.workflows.length) return;
  if (!byId("welcome").checkVisibility() || byId("options").open) await words.learn();
  describe();
  loaded.runs?.render();
  documents.render();
  loaded.evaluations?.render();
  loaded.versus?.draw();
  asking.redraw();
}

/** Where documents cannot be listed there are none to ask about. */
const offerQuestions = () => byId("welcome").hidden || questions.load().catch(() => {});

/** The form of the options, and what the chosen workflow does. */
function describe() {
  const changed = (count) => (byId("changed").textContent = count ? t("changed", count) : "");
  options.build(selected().context_schema, changed, offered.language_model);
  showWorkflow();
}

function showWorkflow() {
  const { name, description } = selected();
  byId("workflow-about").textContent = words.said("WORKFLOWS", name, description);
  const isFree = !asking.current() || asking.current().done;
  if (isFree && !byId("graph-view").hidden) later("graph").then((graph) => graph.draw(selected())).catch(failed);
}

function drawGraph(run) {
  later("graph").then((graph) => graph.render(run, named(run.workflow))).catch(failed);
}

/** The question that is typed, or the one that was answered, by the baseline and by the best workflow. */
async function compare(run = null) {
  const question = run?.question ?? byId("question").value.trim();
  if (!question) return byId("question").focus();
  const versus = await later("versus");
  if (!run) byId("question").value = "";
  await versus.ask(question, offered.default, run);
}

function theme(wanted) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = wanted ?? localStorage.getItem(THEME) ?? dark;
}

const clicked = (id, act) => byId(id).addEventListener("click", act);

function wireAsking() {
  byId("ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    asking.ask();
  });
  byId("question").addEventListener("keydown", (event) => {
    // While characters are composed, Enter chooses among them.
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
    event.preventDefault();
    asking.ask();
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    if (byId("reader").open) return byId("reader").close();
    asking.cancel();
    loaded.versus?.cancel();
  });
  clicked("cancel", asking.cancel);
  byId("workflow").addEventListener("change", showWorkflow);
  byId("options").addEventListener("toggle", async () => byId("options").open && (await words.learn(), describe()));
  clicked("full-graph", () => {
    const shows = byId("graph-view").hidden;
    byId("graph-view").hidden = !shows;
    byId("flow").hidden = shows;
    byId("full-graph").setAttribute("aria-pressed", String(shows));
    asking.draw();
  });
  clicked("compare-question", () => compare().catch(failed));
  clicked("compare-run", () => compare(asking.current()).catch(failed));
  for (const id of ["copy-answer", "copy-link", "export"]) clicked(id, () => later("share").then((share) => share.act(id)).catch(failed));
  clicked("examples", (event) => {
    if (!event.target.classList.contains("example")) return;
    byId("question").value = event.target.textContent;
    asking.ask();
  });
}

function wire() {
  clicked("language", () => {
    words.choose(words.current() === "zh" ? "en" : "zh");
    speak().then(offerQuestions).catch(failed);
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
  asking.wire({ named, failed, askForKey, drawGraph });
  wireAsking();
  for (const part of [documents, reader, sources]) part.wire(failed);
  pictures.wire();
  uploads.wire(failed, async () => {
    await documents.offer();
    await Promise.all([byId("documents-view").hidden || documents.load(), offerQuestions()]);
  });
  byId("collection").addEventListener("change", offerQuestions);
  addEventListener("hashchange", go);
}

theme();
wire();
words.say();
begin().catch(failed);
