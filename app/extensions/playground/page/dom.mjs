/** Elements from plain values. Text stays text: nothing here reads markup. */

const SVG = "http://www.w3.org/2000/svg";

/** An element; `class`, `vars` (CSS variables), `data`, `on…` and attributes or properties. */
export function h(tag, props = {}, ...children) {
  return furnish(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return furnish(document.createElementNS(SVG, tag), props, children);
}

function furnish(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "vars") setVars(element, value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  return put(element, ...children);
}

export function setVars(element, vars) {
  for (const [name, value] of Object.entries(vars)) element.style.setProperty(`--${name}`, value);
}

/** Replaces what the element holds; null, undefined and false hold nothing. */
export function put(element, ...children) {
  element.replaceChildren(...children.flat(2).filter((it) => it || it === 0 || it === ""));
  return element;
}

export const byId = (id) => document.getElementById(id);

/** The address where it is one of the web, else null. */
export function webAddress(address) {
  try {
    const url = new URL(address);
    return /^https?:$/.test(url.protocol) ? url.href : null;
  } catch {
    return null; // A path of the knowledge base.
  }
}

/** A link where the address is of the web, else its text alone. */
export function link(address, text = address) {
  const href = webAddress(address);
  if (!href) return h("span", { class: "source" }, text);
  return h("a", { class: "source", href, rel: "noopener noreferrer nofollow", target: "_blank" }, text);
}

const waiting = new Map();

/** Does the work at the next frame; of one name the latest alone. */
export function atNextFrame(name, work) {
  if (!waiting.size) requestAnimationFrame(flush);
  waiting.set(name, work);
}

function flush() {
  const work = [...waiting.values()];
  waiting.clear();
  for (const each of work) each();
}
