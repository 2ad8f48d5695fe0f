// Which rules of the policy the set that is being made breaks.

import { element } from "./answer.js";
import { Refused, ask } from "./client.js";
import { state, ui } from "./notices.js";

const CHECK_AFTER_MS = 120;

export class Warnings {
  #timer = 0;
  #request = null;
  #asked = null;

  /** Show the warnings about a set, and ask for those that did not come with the document. */
  look(item, choice) {
    this.stop();
    const { labels } = choice;
    const known = (item.candidates ?? []).find(
      (one) => one.labels.length === labels.length && one.labels.every((l) => choice.chosen.has(l)),
    );
    if (known) return show(known.warnings);
    if (!labels.length && !choice.changed) return show([]);
    const asked = {};
    this.#asked = asked;
    this.#timer = setTimeout(async () => {
      try {
        this.#request = new AbortController();
        const { signal } = this.#request;
        const wanted = { labels: labels.filter(Boolean) };
        const reply = await ask(`/desk/tasks/${item.id}/check`, wanted, { signal });
        if (this.#asked === asked) show(reply.warnings);
      } catch (error) {
        // A warning is a courtesy; a refusal is shown when the set is submitted.
        if (!(error instanceof Refused) && error.name !== "AbortError") state("offline");
      }
    }, CHECK_AFTER_MS);
    return undefined;
  }

  /** Ask no more about a set that is submitted or has changed. */
  stop() {
    clearTimeout(this.#timer);
    this.#request?.abort();
    this.#asked = null;
  }
}

function show(warnings) {
  ui.warnings.replaceChildren(
    ...warnings.map((text) =>
      element("li", {}, element("span", { "aria-hidden": "true" }, "⚠ "), text),
    ),
  );
}
