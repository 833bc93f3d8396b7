/** The knowledge base: what is in it, files brought in, documents deleted. */

import { call, events, hasKey, latestOf, read } from "./api.mjs";
import { byId, h, link, put } from "./dom.mjs";
import { bytes, t } from "./words.mjs";

const PAGE = 50;
let listed = [];
let total = 0;
const latest = latestOf();

/** The chosen collection, as a field or parameter. */
export const chosen = () => Object.fromEntries([...byId("collection").selectedOptions].map((it) => ["collection", it.value]));

/** Offers the collections where there are several; the chosen one stays so. */
export async function offer() {
  const { collections } = await read("collections");
  const select = byId("collection");
  const { value } = select;
  const options = collections.map(({ name }) => h("option", { selected: name === value }, name));
  put(select, ...options).hidden = !options[1];
}

export async function load(more = false) {
  const offset = more ? listed.length : 0;
  const query = new URLSearchParams({ q: byId("document-search").value.trim(), limit: PAGE, offset, ...chosen() });
  const page = await latest(`documents?${query}`);
  if (!page) return;
  listed = more ? [...listed, ...page.documents] : page.documents;
  total = page.total;
  render();
  byId("reader").hidden = true;
}

/** A document's text with the named part lit; a part's id begins with its document's. */
export async function open(id) {
  const told = await latest(`documents/${encodeURIComponent(id.split("-")[0])}`);
  if (!told) return;
  const [first, last] = id.split("..");
  const from = told.blocks.findIndex((it) => it.id === first);
  const to = last ? from + Number(last) - Number(first.split("-")[2]) : from;
  const [start, end] = [told.blocks[from]?.start ?? 0, told.blocks[to]?.end ?? 0];
  const signs = Array.from(told.text);
  const [before, part, after] = [[0, start], [start, end], [end]].map((at) => signs.slice(...at).join(""));
  const lit = h("mark", {}, part);
  put(byId("reader"), h("h3", {}, told.title || told.source), h("div", { tabindex: 0 }, before, lit, after)).hidden = false;
  lit.scrollIntoView({ block: "center" });
}

export function render() {
  put(byId("document-list"), ...listed.map(row));
  put(byId("document-count"), t("ofTotal", listed.length, total));
  byId("documents-empty").hidden = listed.length > 0;
  byId("documents-more").hidden = listed.length >= total;
}

/** Makes the drop zone, the search and the list work; `failed` is told what goes wrong. */
export function wire(failed) {
  const zone = byId("drop");
  const choose = byId("files");
  choose.onchange = () => {
    upload([...choose.files]).catch(failed);
    choose.value = "";
  };
  zone.ondragenter = zone.ondragover = (event) => {
    event.preventDefault();
    zone.classList.add("over");
  };
  zone.ondragleave = () => zone.classList.remove("over");
  zone.ondrop = (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    upload([...event.dataTransfer.files]).catch(failed);
  };
  byId("collection").onchange = () => byId("documents-view").hidden || load().catch(failed);
  let waiting = 0;
  byId("document-search").oninput = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => load().catch(failed), 250);
  };
  byId("documents-more").onclick = () => load(true).catch(failed);
  byId("document-list").onclick = ({ target }) => {
    const button = target.closest("button[data-id]");
    if (button) remove(button).catch(failed);
  };
}

async function upload(files) {
  if (!files.length) return;
  const form = new FormData();
  for (const file of files) form.append("files", file);
  const meter = byId("progress");
  put(byId("upload-state"), t("uploading", files.map((it) => it.name).join(", ")));
  put(byId("upload-report"));
  meter.hidden = false;
  meter.removeAttribute("value");
  try {
    const headers = { Accept: "text/event-stream" };
    const response = await call(`documents?${new URLSearchParams(chosen())}`, { method: "POST", body: form, headers });
    for await (const { name, data } of events(response)) TOLD[name]?.(data, meter);
  } catch (error) {
    put(byId("upload-state"));
    throw error;
  } finally {
    meter.hidden = true;
  }
  await load();
}

const TOLD = {
  progress({ done, total: all, source, phase }, meter) {
    meter.max = Math.max(1, all);
    meter.value = done;
    put(byId("upload-state"), phase === "reading" ? t("reading", source, done + 1, all) : t("indexing", done, all));
  },
  report({ report }) {
    const { added, updated, skipped, refused } = report;
    const counts = [added, updated, skipped, refused].map((it) => it.length);
    put(byId("upload-state"), t("report", ...counts));
    put(byId("upload-report"), ...refused.map((it) => h("li", { class: "error" }, h("b", {}, it.source), ` — ${it.reason}`)));
  },
  error(problem) {
    put(byId("upload-state"), h("span", { class: "error" }, problem.detail));
  },
};

function row(it) {
  // What is shared belongs to nobody with a key; without keys everyone is at the machine itself.
  const button = it.shared && hasKey()
    ? h("span", { class: "tag" }, t("shared"))
    : h("button", { class: "quiet", data: { id: it.id }, "aria-label": t("removeOf", it.title || it.source) }, t("remove"));
  const facts = [it.language, `${t("chunks")} ${it.chunks}`, bytes(it.bytes)].filter(Boolean).join(" · ");
  return h("li", {}, h("div", {}, h("a", { href: `#document=${it.id}` }, it.title || it.source), h("p", { class: "soft" }, link(it.source), ` · ${facts}`)), button);
}

/** The first press asks, the second deletes. */
async function remove(button) {
  if (!button.classList.contains("sure")) {
    button.classList.add("sure");
    const label = button.getAttribute("aria-label");
    button.removeAttribute("aria-label");
    put(button, t("reallyRemove"));
    const calm = () => {
      button.classList.remove("sure");
      button.setAttribute("aria-label", label);
      put(button, t("remove"));
    };
    // Another button that is being pressed stays where it is.
    button.addEventListener("blur", calm, { once: true });
    return;
  }
  button.disabled = true;
  const path = `documents/${button.dataset.id}`;
  await call(path, { method: "DELETE" }).finally(() => (button.disabled = false));
  await offer();
  await load();
  byId("document-search").focus();
}
