/** A run's events to its end, over as many connections as it takes. */

import { Problem, call, events } from "./api.mjs";

const MOST_TRIES = 6;

/** What passes: a gateway without its service, or a service under load. */
const passes = (error) => !(error instanceof Problem) || error.status >= 500 || error.status === 429;

/**
 * Takes in the events; a connection that breaks is taken up where it broke. `notify` hears of each
 * event and of each change. Throws where it is refused.
 */
export async function follow(run, first, signal, notify) {
  let response = first;
  let lost = "connectionLost";
  for (let tries = 0; !run.done && tries <= MOST_TRIES; tries += 1) {
    try {
      response ??= await call(`runs/${run.id}/events`, { signal, headers: { "Last-Event-ID": run.last } });
      if (response.status === 204) {
        lost = "runLost";
        break;
      }
      for await (const event of events(response)) {
        if (signal.aborted) return;
        run.apply(event);
        run.broken = false;
        tries = 0;
        notify(event);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!run.id || !passes(error)) throw error;
    }
    response = null;
    if (run.done) break;
    if (!run.id) throw new TypeError("nothing came");
    run.broken = true;
    notify();
    if (tries < MOST_TRIES) await new Promise((later) => setTimeout(later, 200 * 2 ** tries));
  }
  if (!run.done) Object.assign(run, { done: true, lost });
  notify();
}
