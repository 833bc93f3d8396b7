/** The page: what the address names is shown, in the chosen language and theme. */

import { Problem, hasKey, read, setKey } from "./api.mjs";
import * as asking from "./asking.mjs";
import * as diff from "./diff.mjs";
import * as documents from "./documents.mjs";
import { byId, h, put } from "./dom.mjs";
import * as evaluations from "./evaluations.mjs";
import * as graph from "./graph.mjs";
import * as options from "./options.mjs";
import * as pictures from "./pictures.mjs";
import * as reader from "./reader.mjs";
import * as runs from "./runs.mjs";
import * as share from "./share.mjs";
import * as words from "./words.mjs";

const { t } = words;
const EXAMPLES = [
  "What does the upper threshold decide?",
  "When is the web searched?",
  "Who won the football World Cup of 1998?",
  "上阈值决定什么？",
];
const THEME = "selfcrag-theme";
const VIEWS = ["ask", "runs", "documents", "evaluations"];
const WITHIN = { diff: "runs", document: "documents" };

let workflows = [];

const named = (name) => workflows.find((it) => it.name === name);
const selected = () => named(byId("workflow").value);

function failed(error) {
  if (error.name === "AbortError") return;
  put(byId("trouble"), asking.messageOf(error)).hidden = false;
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
  asking.forget();
  const [name, value] = location.hash.slice(1).split("=");
  const view = WITHIN[name] ?? (VIEWS.includes(name) ? name : "ask");
  for (const it of VIEWS) {
    byId(`${it}-view`).hidden = it !== view;
    byId(`to-${it}`).ariaCurrent = it === view ? "page" : null;
  }
  byId("diff").hidden = name !== "diff" || !value;
  byId("trouble").hidden = true;
  if (name === "run" && value) await asking.open(value);
  else if (view === "runs") await Promise.all([runs.load(), name === "diff" && value && diff.show(...value.split(","))]);
  else if (view === "evaluations") await evaluations.load();
  else if (view === "documents") {
    await documents.load();
    if (value) await reader.open(value);
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
  evaluations.render();
  describe();
  asking.redraw();
}

function describe() {
  const { name, description } = selected();
  byId("workflow-about").textContent = words.said("WORKFLOWS", name, description);
  const isFree = !asking.current() || asking.current().done;
  if (isFree && !byId("graph-view").hidden) graph.draw(selected());
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
    if (event.key === "Escape" && !event.isComposing && !byId("reader").open) asking.cancel();
  });
  clicked("cancel", asking.cancel);
  byId("workflow").addEventListener("change", describe);
  clicked("full-graph", () => {
    const shows = byId("graph-view").hidden;
    byId("graph-view").hidden = !shows;
    byId("flow").hidden = shows;
    byId("full-graph").setAttribute("aria-pressed", String(shows));
    if (shows) graph.draw(asking.current() ? named(asking.current().workflow) : selected());
    asking.draw();
  });
  const examples = EXAMPLES.map((it) =>
    h("button", { type: "button", class: "example", lang: /[一-鿿]/.test(it) ? "zh-CN" : "en" }, it),
  );
  put(byId("examples"), ...examples);
  clicked("examples", (event) => {
    if (!event.target.classList.contains("example")) return;
    byId("question").value = event.target.textContent;
    asking.ask();
  });
}

function wire() {
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
  asking.wire({ named, failed, askForKey });
  wireAsking();
  for (const part of [runs, documents, evaluations, reader]) part.wire(failed);
  pictures.wire();
  share.wire(asking.current);
  addEventListener("hashchange", go);
}

theme();
wire();
words.say();
begin().catch(failed);
