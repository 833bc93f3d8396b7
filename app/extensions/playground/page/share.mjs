/** An answer taken along: copied, linked to, exported as Markdown. */

import { isQuoted } from "./answer.mjs";
import { byId } from "./dom.mjs";
import { score, t } from "./words.mjs";

/** The answer with its verdict and sources, as Markdown. */
export function markdown(run) {
  const { answer, verdict, action, citations } = run.answer;
  const said = isQuoted(run.answer) ? quotation(answer, "") : answer;
  const judged = [t(`verdict.${verdict}`), action && t(`action.${action}`)].filter(Boolean).join(" · ");
  const sources = citations.map((it) => `${it.n}. ${escaped(it.title || it.source)} (${escaped(it.source)}, ${score(it.score)})\n\n${quotation(it.text, "   ")}`);
  const parts = [`# ${escaped(run.question)}`, said, `*${judged}*`, sources.length && `## ${t("citations")}`, ...sources];
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

const quotation = (text, indent) => text.split("\n").map((line) => `${indent}> ${line}`).join("\n");
const escaped = (text) => text.replace(/[\\`*_[\]<>#]/g, "\\$&").replace(/\n/g, " ");

/** Makes the buttons below an answer work; `current` tells the run that is shown. */
export function wire(current) {
  byId("copy-answer").onclick = () => copy(current().answer.answer);
  byId("copy-link").onclick = () => copy(new URL(`#run=${current().id}`, location.href).href);
  byId("export").onclick = () => save(markdown(current()), `${current().id.slice(0, 8)}.md`, "text/markdown");
}

async function copy(text) {
  await navigator.clipboard.writeText(text).catch(() => selected(text));
  byId("told").textContent = t("copied");
}

/** Where the clipboard is closed to scripts, as over plain HTTP. */
function selected(text) {
  const box = document.createElement("textarea");
  box.value = text;
  box.className = "unseen";
  document.body.append(box);
  box.select();
  document.execCommand("copy");
  box.remove();
}

/** Saves a file made here. */
export function save(content, name, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
