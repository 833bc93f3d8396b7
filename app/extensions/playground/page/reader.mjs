/** The reader: a document beside the answer, with the quoted words marked. */

import { latestOf, read } from "./api.mjs";
import { byId, h, put } from "./dom.mjs";
import { bytes, t } from "./words.mjs";

const BESIDE = matchMedia("(min-width: 1100px)");
const BEFORE = 60; // characters shown before the first mark where there is little room
const latest = latestOf();
let opener = null;

const pathOf = (id) => `documents/${encodeURIComponent(id.split("-")[0])}`;

/** Where a part stands in its document's text, in characters; a part may be several blocks. */
function partOf({ blocks }, id) {
  const [first, last] = id.split("..");
  const from = blocks.findIndex((it) => it.id === first);
  const to = last ? from + Number(last) - Number(first.split("-")[2]) : from;
  return [blocks[from]?.start ?? 0, blocks[to]?.end ?? 0];
}

/** The text of a part. */
export async function passage(id) {
  const document = await read(pathOf(id));
  return Array.from(document.text).slice(...partOf(document, id)).join("");
}

/** Where each of the words stands in a text: [[start, end]], in order and without overlaps. */
export function places(text, words) {
  const found = words.filter(Boolean).map((it) => new RegExp(it.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&").replace(/\s+/g, "\\s+")).exec(text));
  const sorted = found.filter(Boolean).map((it) => [it.index, it.index + it[0].length]).sort((a, b) => a[0] - b[0]);
  return sorted.filter(([start], at) => !at || start >= sorted[at - 1][1]);
}

/** A text with its marks; a short one begins shortly before the first. */
export function marked(text, marks, { isShort = false } = {}) {
  const first = isShort && marks.length ? Math.max(0, marks[0][0] - BEFORE) : 0;
  const pieces = first ? ["… "] : [];
  let at = first;
  for (const [start, end] of marks) {
    pieces.push(text.slice(at, start), h("mark", {}, text.slice(start, end)));
    at = end;
  }
  return [...pieces, text.slice(at)];
}

/** Opens the document of a part; a part's id begins with its document's. In it `words` are marked, else `strip`. */
export async function open(id, words = [], strip = "") {
  const document = await latest(pathOf(id));
  if (!document) return;
  const [start, end] = partOf(document, id);
  const signs = Array.from(document.text);
  const [before, part, after] = [[0, start], [start, end], [end]].map((at) => signs.slice(...at).join(""));
  const quoted = places(part, words);
  const marks = quoted.length ? quoted : places(part, [strip]);
  const lit = h("span", { class: "part-read" }, ...marked(part, marks.length ? marks : [[0, part.length]]));
  const facts = `${document.source} · ${t("chunks")} ${document.chunks} · ${bytes(document.bytes)}`;
  fill(document.title || document.source, facts, [before, lit, after]);
}

/** Shows a text that is no document of the service. */
export function show({ title, facts, text, marks }) {
  fill(title || facts, facts, marked(text, marks));
}

function fill(title, facts, pieces) {
  put(byId("reader-title"), title);
  put(byId("reader-facts"), facts);
  put(byId("reader-text"), ...pieces);
  const { activeElement } = document;
  if (!byId("reader").open) {
    opener = activeElement;
    if (BESIDE.matches) byId("reader").show();
    else byId("reader").showModal();
  }
  const text = byId("reader-text");
  text.focus();
  const lit = text.querySelector("mark");
  // Not by scrollIntoView, which moves the page as well.
  if (lit) text.scrollTop += lit.getBoundingClientRect().top - text.getBoundingClientRect().top - text.clientHeight / 3;
}

/** A link to a document opens it beside what is shown; closed, the focus is where it was. */
export function wire(failed) {
  const box = byId("reader");
  document.addEventListener("click", (event) => {
    const address = event.target.closest?.("a[href^='#document=']")?.getAttribute("href");
    if (!address || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open(address.slice("#document=".length)).catch(failed);
  });
  byId("reader-close").onclick = () => box.close();
  box.addEventListener("click", (event) => event.target === box && box.close());
  box.addEventListener("close", () => {
    if (opener?.isConnected) opener.focus({ preventScroll: true });
    if (location.hash.startsWith("#document=")) location.hash = "documents";
  });
}
