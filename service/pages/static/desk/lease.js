// How long the document in hand is still the person's, and what can be done once it is not.

import { clearNotices, has, notice, say, ui } from "./notices.js";

const WARN_BELOW_S = 120;
const LOST = {
  expired: "Your lease expired, so other reviewers can take this document.",
  taken: "Another reviewer has this document now.",
  submitted: "You submitted this document in another tab.",
  decided: "This document has already been submitted.",
};

export class Lease {
  #queue;
  #goOn;

  /** `goOn` opens the next document of `queue`. */
  constructor(queue, goOn) {
    this.#queue = queue;
    this.#goOn = goOn;
  }

  show() {
    const item = this.#queue.current;
    ui.lease.hidden = !item;
    if (!item) return;
    const left = Math.max(0, Math.round(this.#queue.left_s));
    const clock = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}`;
    ui.leaseText.textContent = item.lost ? "Lease expired" : `Yours for ${clock}`;
    const short = left < Math.min(WARN_BELOW_S, item.lease / 4000);
    ui.lease.classList.toggle("short", short);
    if (left > 0 && short && !item.lost) {
      if (!has("lease"))
        notice("lease", "This document returns to the queue soon. Press any key to keep it.");
    } else {
      clearNotices("lease");
    }
  }

  /** Say how the document was lost, and offer what can be done. */
  lost(how) {
    const over = how === "submitted" || how === "decided";
    const kept = how === "submitted" ? "" : " Your choices and comment are kept in this tab.";
    clearNotices("lease");
    notice(
      "item",
      (LOST[how] ?? how) + kept,
      ...(over ? [] : [["Reclaim it", () => this.#takeBack()]]),
      ["Continue with the next", () => this.#forget()],
    );
    this.show();
  }

  async #takeBack() {
    const item = this.#queue.current;
    if (!item) return;
    clearNotices("item");
    if (await this.#queue.beat(item)) say("You have it again.");
    this.show();
  }

  #forget() {
    clearNotices("item");
    this.#queue.forget();
    this.#goOn();
  }
}
