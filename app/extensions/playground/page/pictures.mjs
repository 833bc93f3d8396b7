/** Pictures: those of an answer, and the one that a question brings. */

import { call } from "./api.mjs";
import { byId, h } from "./dom.mjs";
import { t } from "./words.mjs";

/** With its caption; fetched by the page itself, for a key travels in a header. */
export function picture({ url, caption, title }) {
  const alt = caption || title;
  const image = h("img", { alt });
  if (url.startsWith("data:")) image.src = url;
  else call(url.slice(1)).then(dataUrl).then((src) => (image.src = src)).catch(() => image.remove());
  return h("figure", {}, image, h("figcaption", { class: "soft" }, alt));
}

async function dataUrl(response) {
  const reader = new FileReader();
  const read = new Promise((done) => (reader.onload = done));
  reader.readAsDataURL(await response.blob());
  await read;
  return reader.result;
}

/** Names the chosen image beside the question; pressed, the name takes it away. */
export function wire() {
  byId("image").onchange = showChosen;
  byId("attached").onclick = () => {
    clear();
    byId("question").focus();
  };
}

export function clear() {
  byId("image").value = "";
  showChosen();
}

function showChosen() {
  const name = byId("image").files[0]?.name;
  byId("attached").hidden = !name;
  byId("attached").textContent = name ? `${name} ×` : "";
  byId("attached").ariaLabel = name ? t("removeOf", name) : null;
}

/** The chosen image, no larger than is needed; the service says what cannot be drawn. */
export async function chosen() {
  const [file] = byId("image").files;
  if (!file) return null;
  const drawn = await createImageBitmap(file).catch(() => null);
  if (!drawn) return "data:image/";
  const canvas = document.createElement("canvas");
  const scale = Math.min(1, 1024 / Math.max(drawn.width, drawn.height));
  canvas.width = drawn.width * scale;
  canvas.height = drawn.height * scale;
  canvas.getContext("2d").drawImage(drawn, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/webp");
}
