/** Files brought into the knowledge base: dropped or chosen, each with its progress and its outcome in words. */

import { call, events } from "./api.mjs";
import * as documents from "./documents.mjs";
import { byId, h, put } from "./dom.mjs";
import { t } from "./words.mjs";

let rows = new Map(); // file name -> {tag, name, reason}
let changed = () => {};

/** The drop zone stands where it is needed: on the empty page, among the documents, or above the composer. */
export function place(view) {
  const home = view === "documents" ? "documents-drop" : byId("welcome").hidden ? "tray" : "welcome";
  if (byId("drop").parentElement.id !== home) byId(home).append(byId("drop"));
}

/** Files are dropped anywhere; `failed` hears what goes wrong, `then` that documents have come. */
export function wire(failed, then) {
  changed = then;
  const picker = byId("files");
  picker.onchange = () => {
    upload([...picker.files]).catch(failed);
    picker.value = "";
  };
  byId("add-documents").onclick = () => picker.click();
  byId("upload-close").onclick = close;
  const isOver = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const marks = (on) => document.body.classList.toggle("over", on);
  for (const name of ["dragenter", "dragover"]) {
    addEventListener(name, (event) => {
      if (!isOver(event)) return;
      event.preventDefault();
      marks(true);
    });
  }
  addEventListener("dragleave", (event) => event.relatedTarget || marks(false));
  addEventListener("drop", (event) => {
    if (!isOver(event)) return;
    event.preventDefault();
    marks(false);
    upload([...event.dataTransfer.files]).catch(failed);
  });
}

export function close() {
  byId("upload").hidden = true;
}

async function upload(files) {
  if (!files.length) return;
  const form = new FormData();
  for (const file of files) form.append("files", file);
  rows = new Map(files.map((file) => [file.name, row(file.name)]));
  put(byId("upload-report"), ...[...rows.values()].map((it) => it.item));
  put(byId("upload-state"), t("uploading"));
  byId("upload").hidden = byId("progress").hidden = false;
  byId("upload-close").hidden = true;
  byId("progress").removeAttribute("value");
  byId("drop").scrollIntoView({ block: "nearest" });
  try {
    const headers = { Accept: "text/event-stream" };
    const response = await call(`documents?${new URLSearchParams(documents.own())}`, { method: "POST", body: form, headers });
    for await (const { name, data } of events(response)) TAKE[name]?.(data);
  } catch (error) {
    close();
    throw error;
  } finally {
    byId("progress").hidden = true;
    byId("upload-close").hidden = false;
  }
  await changed();
}

function row(name) {
  const tag = h("span", { class: "tag" }, t("upload.waiting"));
  const title = h("span", {}, name);
  const reason = h("span", { class: "soft" });
  return { tag, title, reason, item: h("li", {}, tag, title, reason) };
}

const mark = (source, fate, kind = "") => {
  const it = rows.get(source);
  if (!it) return null;
  put(it.tag, t(`upload.${fate}`)).className = `tag ${kind}`;
  return it;
};

const TAKE = {
  progress({ done, total: all, source, phase }) {
    Object.assign(byId("progress"), { max: Math.max(1, all), value: done });
    put(byId("upload-state"), t(phase === "reading" ? "reading" : "indexing", Math.min(done + 1, all), all));
    const names = [...rows.keys()];
    const at = phase === "reading" ? names.indexOf(source) : names.length;
    names.slice(0, Math.max(0, at)).forEach((name) => mark(name, "read"));
    mark(source, "reading", "unsure");
  },
  report({ report }) {
    const ids = new Map(report.documents.map((it) => [it.source, it.id]));
    for (const fate of ["added", "updated", "skipped"]) {
      for (const source of report[fate]) {
        const it = mark(source, fate, fate === "skipped" ? "" : "good");
        if (it && ids.has(source)) put(it.title, h("a", { href: `#document=${ids.get(source)}` }, source));
        if (it && fate === "skipped") put(it.reason, t("upload.skippedHint"));
      }
    }
    for (const { source, reason } of report.refused) {
      const it = mark(source, "refused", "bad");
      if (it) put(it.reason, reason);
    }
    const counts = ["added", "updated", "skipped", "refused"].filter((it) => report[it].length).map((it) => t(`count.${it}`, report[it].length));
    put(byId("upload-state"), counts.join(", "));
  },
  error(problem) {
    put(byId("upload-state"), h("span", { class: "error" }, problem.detail));
  },
};
