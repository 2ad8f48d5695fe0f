// What helps to read a document: words of it that speak for and against a label, and a search.

import { telling, termLines } from "./answer.js";
import { ask } from "./client.js";
import { say, trouble, ui } from "./notices.js";
import { composing } from "../keys.js";

export class Reading {
  #sheet;
  #queue;
  #explained = null;

  /** `sheet` shows the document that `queue` has in hand. */
  constructor(sheet, queue) {
    this.#sheet = sheet;
    this.#queue = queue;
    ui.find.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#step(1);
    });
    ui.findBack.addEventListener("click", () => this.#step(-1));
    ui.findText.addEventListener("input", () => this.#find());
    ui.findText.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !event.shiftKey || composing(event)) return;
      event.preventDefault();
      this.#step(-1);
    });
  }

  /** Begin with another document. */
  begin() {
    this.#explained = null;
    ui.terms.hidden = true;
    ui.findText.value = "";
    ui.findCount.textContent = "";
  }

  /** Show words for and against a label, or hide them where they are shown. */
  async explain(label) {
    const item = this.#queue.current;
    if (!item || item.candidates === null) return;
    if (this.#explained === label) {
      this.#explained = null;
      ui.terms.hidden = true;
      this.#sheet.weigh([]);
      return;
    }
    try {
      const reply = await ask(`/desk/tasks/${item.id}/explain`, { labels: [label] });
      if (this.#queue.current !== item) return;
      const terms = telling(reply.terms[0]);
      this.#explained = label;
      ui.terms.replaceChildren(...termLines(label, terms));
      ui.terms.hidden = false;
      this.#sheet.weigh(terms);
      say(ui.terms.textContent);
    } catch (error) {
      trouble(error);
    }
  }

  /** Explain the next label of the set, and after the last one nothing. */
  explainNext(choice) {
    const every = choice.labels.length ? choice.labels : [...choice.order];
    const labels = every.filter((label) => choice.explainable(label));
    const explained = this.#explained;
    const next = labels[labels.indexOf(explained) + 1] ?? (explained === null ? labels[0] : explained);
    if (next !== undefined) this.explain(next);
  }

  #find() {
    const total = this.#sheet.find(ui.findText.value);
    ui.findCount.dataset.total = total;
    ui.findCount.textContent = ui.findText.value.trim() ? `${total} found` : "";
    if (total) this.#step(1);
  }

  #step(by) {
    const at = this.#sheet.step(by);
    if (at) ui.findCount.textContent = `${at} of ${ui.findCount.dataset.total}`;
  }
}
