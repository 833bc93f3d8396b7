/** Documents listed, searched and deleted, and their collections. */

import { call, hasKey, latestOf, read } from "./api.mjs";
import { byId, h, link, put } from "./dom.mjs";
import { bytes, t } from "./words.mjs";

const PAGE = 50;
let listed = [];
let total = 0;
let collections = [];
const latest = latestOf();

/** The chosen collection, as a field or parameter. */
export const chosen = () => Object.fromEntries([...byId("collection").selectedOptions].map((it) => ["collection", it.value]));

/** And never the sample. */
export const own = () => (chosen().collection === "sample" && (byId("collection").value = "default"), chosen());

/** Offers the collections, if several; the chosen one stays. */
export async function offer() {
  ({ collections } = await read("collections"));
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
}

export function render() {
  put(byId("collections"), ...(collections[1] ? collections.map(collection) : []));
  put(byId("document-list"), ...listed.map(row));
  put(byId("document-count"), t("ofTotal", listed.length, total));
  byId("documents-empty").hidden = listed.length > 0;
  byId("documents-more").hidden = listed.length >= total;
}

/** A collection to choose; an empty one may go. */
function collection({ name, documents: count }) {
  const isChosen = chosen().collection === name;
  const pick = h("button", { class: "example", "aria-pressed": String(isChosen), data: { choose: name } }, t("documentsIn", name, count));
  const drop = count === 0 && name !== "default" ? h("button", { class: "quiet", data: { drop: name }, "aria-label": t("removeOf", name) }, "×") : null;
  return h("li", {}, pick, drop);
}

async function choose(name) {
  byId("collection").value = name;
  await load();
}

async function add() {
  const name = byId("collection-name").value.trim();
  if (!name) return;
  await call("collections", { json: { name } });
  byId("collection-form").reset();
  await offer();
  await choose(name);
}

async function drop(name) {
  await call(`collections/${encodeURIComponent(name)}`, { method: "DELETE" });
  await offer();
  await load();
}

/** Makes the search and the list work; `failed` hears what goes wrong. */
export function wire(failed) {
  byId("collection-form").onsubmit = (event) => {
    event.preventDefault();
    add().catch(failed);
  };
  byId("collections").onclick = ({ target }) => {
    const { choose: name, drop: gone } = target.dataset;
    if (name) choose(name).catch(failed);
    if (gone) drop(gone).catch(failed);
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
