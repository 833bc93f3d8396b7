/** A stored run gone through again: to any of its events, or from the first to the last. */

import { byId } from "./dom.mjs";
import { until } from "./run.mjs";
import { t } from "./words.mjs";

const LASTS_MS = 6000;
const LEAST_MS = 30;

let whole = null;
let past = null; // as it was after some of its events
let playing = 0;

/** Offers the replay of a run that is over. */
export function offer(run) {
  const isOver = run.done && run.events.length > 1;
  byId("replay").hidden = !isOver;
  if (!isOver || whole === run) return;
  stop();
  [whole, past] = [run, null];
  byId("scrubber").max = run.events.length;
  byId("scrubber").value = run.events.length;
  tell(run.events.length);
}

/** `show` is given the run as it was after some of its events. */
export function wire(show) {
  byId("scrubber").oninput = ({ target }) => {
    stop();
    go(Number(target.value), show);
  };
  byId("play").onclick = () => {
    if (playing) return stop();
    const from = Number(byId("scrubber").value);
    play(from >= whole.events.length ? 0 : from, show);
  };
}

function go(count, show) {
  byId("scrubber").value = count;
  tell(count);
  past = until(whole, count, past);
  show(past);
}

/** As long as it took, or less: nobody waits for a slow run again. */
function play(count, show) {
  if (count > whole.events.length) return stop();
  go(count, show);
  const pace = Math.min(1, LASTS_MS / Math.max(1, whole.span));
  const [now, next] = [whole.events[count - 1]?.at ?? 0, whole.events[count]?.at ?? 0];
  playing = setTimeout(() => play(count + 1, show), Math.max(LEAST_MS, (next - now) * pace));
}

export function stop() {
  clearTimeout(playing);
  playing = 0;
}

function tell(count) {
  byId("scrubbed").textContent = t("scrubbed", count, whole.events.length);
}
