// A box that finds labels by code and words as one types (the ARIA pattern of a combobox).

import { element } from "./desk-answer.js";
import { ask } from "./desk-client.js";

const PAUSE_MS = 70;

export class Picker {
  #asked = null;
  #timer = 0;
  #at = -1;
  #shown = null; // the query that the list answers
  #entered = false; // Enter came before the list that answers what is typed

  /**
   * `picked(label)` is called with what is chosen, `chosen(label)` tells what is already, and
   * `shown(label)` is called with the one that Enter would choose.
   */
  constructor({ input, list, count, picked, chosen, shown, failed }) {
    Object.assign(this, { input, list, count, picked, chosen, shown, failed });
    input.addEventListener("input", () => this.#later());
    input.addEventListener("focus", () => this.#later());
    input.addEventListener("blur", () => this.close());
    input.addEventListener("keydown", (event) => this.#key(event));
    // The list must not take the focus away before the click is done.
    list.addEventListener("pointerdown", (event) => event.preventDefault());
    list.addEventListener("click", ({ target }) => {
      const option = target.closest("[role=option]");
      if (option) this.#take(option);
    });
  }

  close() {
    clearTimeout(this.#timer);
    this.#asked?.abort();
    this.#entered = false;
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  clear() {
    this.input.value = "";
    this.close();
  }

  get #query() {
    return this.input.value.slice(0, 200);
  }

  #later() {
    clearTimeout(this.#timer);
    this.#entered = false;
    this.#timer = setTimeout(() => this.#search(), PAUSE_MS);
  }

  async #search() {
    this.#asked?.abort();
    this.#asked = new AbortController();
    const query = this.#query;
    const address = `/desk/labels?${new URLSearchParams({ query })}`;
    try {
      this.#show(query, await ask(address, undefined, { signal: this.#asked.signal }));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#entered = false;
      this.failed(error);
    }
  }

  #show(query, { labels, total }) {
    if (document.activeElement !== this.input) return;
    this.#shown = query;
    this.list.replaceChildren(
      ...labels.map((label, place) =>
        element(
          "li",
          { id: `found-${place}`, role: "option", dir: "auto", "data-label": label, "aria-selected": false },
          label,
          this.chosen(label) ? element("small", {}, "in your set: Enter removes it") : "",
        ),
      ),
    );
    if (total > labels.length) this.list.append(more(`${total - labels.length} more; keep typing`));
    if (!total) this.list.append(more("No label matches"));
    this.count.textContent = `${total} label${total === 1 ? "" : "s"} found`;
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.#move(labels.length ? 0 : -1);
    if (this.#entered && labels.length) this.#take(this.#options()[0]);
    this.#entered = false;
  }

  #options() {
    return [...this.list.querySelectorAll("[role=option]")];
  }

  #move(to) {
    const options = this.#options();
    options[this.#at]?.setAttribute("aria-selected", "false");
    this.#at = options.length ? (to + options.length) % options.length : -1;
    const option = to < 0 && !options.length ? null : options[this.#at];
    if (!option) {
      this.input.removeAttribute("aria-activedescendant");
      return;
    }
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", option.id);
    this.shown(option.dataset.label);
  }

  #key(event) {
    const open = !this.list.hidden;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (open) this.#move(this.#at + (event.key === "ArrowDown" ? 1 : -1));
      else this.#later();
    } else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) {
      const option = open ? this.#options()[this.#at] : null;
      if (this.#query !== (open ? this.#shown : "")) {
        // A fast typist means what is typed, not the first entry of an older list.
        clearTimeout(this.#timer);
        this.#entered = true;
        this.#search();
      } else if (option) this.#take(option);
    } else if (event.key === "Escape" && (open || this.input.value)) {
      this.clear();
      return; // and on to the page, which takes the focus back to the document
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  #take(option) {
    this.picked(option.dataset.label);
    this.input.value = "";
    this.close();
  }
}

/** What administrators wrote of labels: names, guidelines and the labels above them. */
export class Guide {
  #notes = new Map();
  #below = new Map();

  /** `picked(label)` and `chosen(label)` as for the picker. */
  constructor({ line, tree, picked, chosen }) {
    Object.assign(this, { line, tree, picked, chosen });
    tree.addEventListener("click", ({ target }) => {
      const { label } = target.closest("button")?.dataset ?? {};
      if (label === undefined) return;
      this.picked(label);
      for (const one of tree.querySelectorAll("button"))
        one.setAttribute("aria-pressed", this.chosen(one.dataset.label));
    });
  }

  /** Fetch the notes; returns whether there is a hierarchy to browse. */
  async load() {
    const { notes } = await ask("/desk/notes");
    for (const one of notes) {
      this.#notes.set(one.label, one);
      this.#below.set(one.parent, [...(this.#below.get(one.parent) ?? []), one]);
    }
    return notes.some((one) => one.parent);
  }

  /** Say what is known of a label. */
  tell(label) {
    const found = this.#notes.get(label);
    this.line.hidden = !found;
    if (!found) return;
    const name = element("strong", {}, title(found));
    this.line.replaceChildren(name, found.guideline ? `: ${found.guideline}` : "");
  }

  /** Show the labels that stand at the top; the others when they are opened. */
  browse() {
    this.tree.replaceChildren(...this.#branches(null));
  }

  #branches(parent) {
    return (this.#below.get(parent) ?? []).map((one) => {
      const own = () => element("li", {}, this.#pick(one));
      if (!this.#below.has(one.label)) return own();
      const list = element("ul");
      const opened = element("details", {}, element("summary", {}, title(one)), list);
      const fill = () =>
        list.replaceChildren(...(one.known ? [own()] : []), ...this.#branches(one.label));
      opened.addEventListener("toggle", fill, { once: true });
      return element("li", {}, opened);
    });
  }

  #pick(one) {
    if (!one.known) return title(one);
    return element(
      "button",
      {
        type: "button",
        class: "second compact",
        "data-label": one.label,
        title: one.guideline ?? "",
        "aria-pressed": this.chosen(one.label),
      },
      title(one),
    );
  }
}

const title = ({ label, name }) => (name ? `${label} ${name}` : label);

const more = (text) => element("li", { class: "more", role: "presentation" }, text);
