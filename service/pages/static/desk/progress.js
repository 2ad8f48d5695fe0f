// What a person has done: the last act, which can be taken back, and how many documents today.

import { element, inLine } from "./answer.js";
import { ask } from "./client.js";
import { ui } from "./notices.js";

const COUNT_AGAIN_MS = 60_000;

const DONE = {
  submitted: ({ decision }) => ["Submitted ", inLine(decision.labels)],
  skipped: ({ reason }) => ["Skipped ", reason],
  postponed: () => ["Postponed ", "it comes back after all that waits now; others may take it"],
};

export class Progress {
  #queue;
  #done = 0;
  #counted = 0;

  constructor(queue) {
    this.#queue = queue;
  }

  /** Count submissions, or decisions taken back. */
  add(number) {
    this.#done += number;
    ui.progress.hidden = false;
    ui.progress.replaceChildren(element("strong", {}, String(this.#done)), " submitted today");
  }

  /** Name the act that would be taken back next, and how many before it could be. */
  showUndo() {
    const [last, ...before] = this.#queue.undoable;
    ui.undoBar.hidden = !last;
    if (!last) return;
    const [verb, what] = DONE[last.kind](last);
    const text = `${last.item.document.id ?? "Untitled document"}: ${what}`;
    const line = `${text}${before.length ? ` (and ${before.length} before)` : ""}`;
    if (ui.undoText.dataset.line !== verb + line)
      ui.undoText.replaceChildren(element("strong", {}, verb), line);
    ui.undoText.dataset.line = verb + line;
    const left = Math.ceil((last.until - Date.now()) / 1000);
    ui.undoLeft.textContent = Number.isFinite(left) ? `${left} s` : "";
  }

  /** Count again, but not while the person is idle: that would keep their session. */
  async load() {
    if (Date.now() - this.#counted < COUNT_AGAIN_MS) return;
    const first = !this.#counted;
    this.#counted = Date.now();
    const midnight = new Date().setHours(0, 0, 0, 0);
    const within = ((Date.now() - midnight) / 1000).toFixed(0);
    try {
      const reply = await ask(`/desk/progress?within_s=${within}`);
      ui.comments.hidden = !reply.comments;
      ui.comments.textContent = `New comments: ${reply.comments}`;
      this.add(first ? reply.done : 0);
    } catch {
      // It is nice to know, and no more.
    }
  }
}
