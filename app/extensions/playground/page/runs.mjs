/** Past runs: listed, searched, chosen for comparison. */

import { latestOf } from "./api.mjs";
import { byId, h, put } from "./dom.mjs";
import { ms, t, when } from "./words.mjs";

const PAGE = 30;
const CHOICES = {
  action: ["correct", "ambiguous", "incorrect"],
  verdict: ["supported", "partly", "unsupported", "abstained", "not_judged"],
  status: ["done", "running", "cancelled", "failed", "lost"],
};
let listed = [];
let total = 0;
const latest = latestOf();
const chosen = new Set();

/** Loads the newest runs that are wanted, or those after the ones shown. */
export async function load(more = false) {
  const offset = more ? listed.length : 0;
  const page = await latest(`runs?${new URLSearchParams({ limit: PAGE, offset, ...wanted() })}`);
  if (!page) return;
  listed = more ? [...listed, ...page.runs] : page.runs;
  total = page.total;
  for (const id of chosen) if (!listed.some((run) => run.run_id === id)) chosen.delete(id);
  render();
}

function wanted() {
  const given = { q: byId("run-search").value.trim() };
  for (const name of Object.keys(CHOICES)) given[name] = byId(`run-${name}`).value;
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value));
}

export function render() {
  for (const [name, values] of Object.entries(CHOICES)) offer(byId(`run-${name}`), name, values);
  put(byId("run-list"), ...listed.map(row));
  byId("run-count").textContent = t("runsOf", listed.length, total);
  byId("runs-empty").hidden = listed.length > 0;
  byId("runs-more").hidden = listed.length >= total;
  count();
}

function offer(select, name, values) {
  const { value } = select;
  const label = t(name === "status" ? "statusOf" : name);
  put(select, h("option", { value: "" }, t("any", label)), ...values.map((it) => h("option", { value: it }, t(`${name}.${it}`))));
  select.value = value;
}

/** The two runs chosen for comparison, the older first. */
const pair = () => listed.map((run) => run.run_id).filter((id) => chosen.has(id)).toReversed();

function count() {
  byId("compare").disabled = chosen.size !== 2;
}

function row(run) {
  const choose = h("input", {
    type: "checkbox",
    "aria-label": t("chooseRun", run.question),
    checked: chosen.has(run.run_id),
    onchange: (event) => {
      if (event.target.checked) chosen.add(run.run_id);
      else chosen.delete(run.run_id);
      count();
    },
  });
  const said = run.answer ? h("p", { class: "said soft" }, run.answer) : null;
  const ended = run.stopped_by ? t(`stopped.${run.stopped_by}`) : t(`status.${run.status}`);
  const took = run.ended_at ? ms(new Date(run.ended_at) - new Date(run.created_at)) : null;
  const facts = [run.workflow, ended, took, when(run.created_at)].filter(Boolean).join(" · ");
  const chips = ["verdict", "action"].filter((name) => run[name]).map((name) => h("span", { class: `chip ${run[name]}` }, t(`${name}.${run[name]}`)));
  const open = h("a", { href: `#run=${run.run_id}` }, run.question);
  const line = h("p", { class: "line facts" }, ...chips, h("span", { class: "soft" }, facts));
  return h("li", { data: { run: run.run_id } }, choose, h("div", {}, open, said, line));
}

export function wire(failed) {
  const again = () => load().catch(failed);
  let waiting = 0;
  byId("run-search").oninput = () => {
    clearTimeout(waiting);
    waiting = setTimeout(again, 250);
  };
  for (const name of Object.keys(CHOICES)) byId(`run-${name}`).onchange = again;
  byId("run-filter").onsubmit = (event) => event.preventDefault();
  byId("runs-refresh").onclick = again;
  byId("runs-more").onclick = () => load(true).catch(failed);
  byId("compare").onclick = () => (location.hash = `diff=${pair().join(",")}`);
}
