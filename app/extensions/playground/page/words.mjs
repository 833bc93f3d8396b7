/** What is said in the chosen language, and numbers as they are written. */

import { WORDS } from "./vocabulary.mjs";

const LANGUAGE = "selfcrag-language";

function preferred() {
  const kept = localStorage.getItem(LANGUAGE) ?? navigator.language ?? "en";
  return kept.toLowerCase().startsWith("zh") ? "zh" : "en";
}

let language = preferred();

export const current = () => language;

export function choose(wanted) {
  language = wanted;
  localStorage.setItem(LANGUAGE, wanted);
}

/** Whether the page has words for a key. */
export const knows = (key) => Object.hasOwn(WORDS, key);

/**
 * The words of a key in the chosen language, or of its last part; else that part as it is.
 * {0} stands for the first value, {0s} for the s of its plural.
 */
export function t(key, ...values) {
  const last = key.split(".").at(-1);
  const said = (WORDS[key] ?? WORDS[last])?.[language === "zh" ? 1 : 0] ?? last;
  const plural = (value) => (Number(value) === 1 ? "" : "s");
  const put = (text, value, index) => text.replace(`{${index}}`, () => value).replace(`{${index}s}`, plural(value));
  return values.reduce(put, said);
}

let chinese = null;

/** Loads the Chinese for the service's own words, where that is chosen; true where it is new. */
export async function learn() {
  if (language !== "zh" || chinese) return false;
  chinese = await import("./options_zh.mjs");
  return true;
}

/** What the service says in English, in the chosen language where the page knows it. */
export const said = (table, key, english) => (language === "zh" && chinese?.[table][key]) || english;

/** Why the service refused a text. */
export function refusal(text, { status, message }) {
  const count = [...text].length;
  return status === 422 && count > 8000 ? t("tooLong", count) : message;
}

/** Says what the page's elements are marked to say. */
export function say(root = document) {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const it of root.querySelectorAll("[data-t]")) it.textContent = t(it.dataset.t);
  for (const it of root.querySelectorAll("[data-t-label]")) {
    it.setAttribute("aria-label", t(it.dataset.tLabel));
  }
  for (const it of root.querySelectorAll("[data-t-hint]")) it.placeholder = t(it.dataset.tHint);
}

export const ms = (time) => (time >= 1000 ? `${(time / 1000).toFixed(1)} s` : `${Math.round(time)} ms`);

export const score = (value) =>
  typeof value === "number" ? (value > 0 ? "+" : "") + value.toFixed(2).replace("-", "−") : "–";

/** A probability in tenths; nothing where it is not known. */
export const likely = (probability) => (typeof probability === "number" ? t("likely", Math.min(9, Math.max(1, Math.round(probability * 10)))) : "");

export function bytes(size) {
  if (size < 1000) return `${size} B`;
  return size < 1e6 ? `${(size / 1000).toFixed(1)} kB` : `${(size / 1e6).toFixed(1)} MB`;
}

export const when = (iso) => new Date(iso).toLocaleString(language === "zh" ? "zh-CN" : "en");
