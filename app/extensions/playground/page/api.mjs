/** The service's public interface. */

const KEY = "selfcrag-key";

/** Problem details of RFC 9457. */
export class Problem extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `HTTP ${status}`);
    this.status = status;
    this.errors = problem.errors || [];
  }
}

export function setKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

export const hasKey = () => sessionStorage.getItem(KEY) !== null;

/** A good response. Throws Problem, or TypeError where nobody answers. */
export async function call(path, { json, headers = {}, ...init } = {}) {
  const sent = new Headers({ "Accept-Language": document.documentElement.lang, ...headers });
  const key = sessionStorage.getItem(KEY);
  if (key) sent.set("Authorization", `Bearer ${key}`);
  if (json !== undefined) {
    sent.set("Content-Type", "application/json");
    Object.assign(init, { method: "POST", body: JSON.stringify(json) });
  }
  const response = await fetch(path, { ...init, headers: sent });
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new Problem(response.status, problem);
}

export const read = async (path, init) => (await call(path, init)).json();

/** Reads for one place: the latest counts, earlier ones resolve to null. */
export function latestOf() {
  let asking = new AbortController();
  return async (path) => {
    asking.abort();
    const { signal } = (asking = new AbortController());
    const body = await read(path, { signal }).catch((error) => {
      if (!signal.aborted) throw error;
    });
    return signal.aborted ? null : body;
  };
}

const BREATHES_AFTER_MS = 8;

/** Resolves at once for a while of work, then lets the browser draw and hear its user first. */
export function breather() {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < BREATHES_AFTER_MS) return;
    await (globalThis.scheduler?.yield?.() ?? new Promise((later) => setTimeout(later)));
    began = performance.now();
  };
}

/** The server-sent events of a response: {id, name, data}. Ends where the connection does. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      const breathe = breather();
      for (const block of blocks) {
        const event = parsed(block);
        if (event) yield event;
        await breathe();
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parsed(block) {
  const event = { id: -1, name: "", data: "" };
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) event.name = line.slice(7);
    else if (line.startsWith("data: ")) event.data = JSON.parse(line.slice(6));
    else if (line.startsWith("id: ")) event.id = Number(line.slice(4));
  }
  return event.name && event;
}
