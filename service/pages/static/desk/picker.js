// A box that finds labels by code and words as one types (the ARIA pattern of a combobox).

import { element, mark } from "./answer.js";
import { ask } from "./client.js";
import { composing } from "../keys.js";

const PAUSE_MS = 70;

export class Picker {
  #asked = null;
  #timer = 0;
  #at = -1;
  #shown = null; // the query that the list answers
  #entered = false; // Enter came before the list that answers what is typed

  /**
   * `picked(label, kind)` is called with what is chosen, `chosen(label)` tells what is already, and
   * `shown(label)` is called with the one that Enter would choose. `added(label, insist)` is called
   * with a label that is in no list; near-duplicates were shown before, and `insist` says so.
   */
  constructor({ input, list, count, picked, added, chosen, shown, failed }) {
    Object.assign(this, { input, list, count, picked, added, chosen, shown, failed });
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

  async #ask(path, values) {
    this.#asked?.abort();
    this.#asked = new AbortController();
    try {
      return await ask(`${path}?${new URLSearchParams(values)}`, undefined, {
        signal: this.#asked.signal,
      });
    } catch (error) {
      if (error.name !== "AbortError") {
        this.#entered = false;
        this.failed(error);
      }
      return null;
    }
  }

  async #search() {
    const query = this.#query;
    const reply = await this.#ask("/desk/labels", { query });
    if (reply) this.#show(query, reply);
  }

  #show(query, { items, total }) {
    if (document.activeElement !== this.input) return;
    this.#shown = query;
    const typed = query.trim();
    const offered = typed && !items.some(({ label }) => label === typed) ? [addition(typed)] : [];
    const more = total - items.length;
    this.#list(
      items,
      ...(more > 0 ? [remark(`${more} more; keep typing`)] : []),
      ...(total ? [] : [remark("No label matches")]),
      ...offered,
    );
    this.count.textContent =
      `${total} label${total === 1 ? "" : "s"} found` +
      (offered.length ? "; Shift and Enter adds what you typed" : "");
    // Whoever types and presses Enter at once has not read that it would be a new label.
    if (this.#entered && items.length) this.#take(this.#options()[0]);
    this.#entered = false;
  }

  /** List labels, and below them other lines. */
  #list(items, ...others) {
    const known = items.filter((item) => item.in_model);
    const beyond = items.filter((item) => !item.in_model);
    this.list.replaceChildren(
      ...known.map((item) => this.#option(item)),
      ...(beyond.length ? [remark("Not in the model")] : []),
      ...beyond.map((item) => this.#option(item)),
      ...others,
    );
    for (const [place, option] of this.#options().entries()) option.id = `found-${place}`;
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.#move(0);
  }

  #option({ label, name, state, in_model }) {
    const kind = in_model ? "" : state;
    return element(
      "li",
      { role: "option", dir: "auto", "data-label": label, "data-kind": kind, "aria-selected": false },
      element("span", {}, label, ...mark(kind)),
      this.chosen(label) ? element("small", {}, "in your set: Enter removes it") : (name ?? ""),
    );
  }

  /** Add a label that is in no list, once near-duplicates were shown. */
  async #add(typed) {
    const reply = await this.#ask("/desk/labels/new", { label: typed });
    if (!reply || document.activeElement !== this.input) return;
    const { listed } = reply;
    if (listed && this.chosen(listed.label)) return this.clear();
    if (listed)
      return this.#done(() => this.picked(listed.label, listed.in_model ? "" : listed.state));
    if (!reply.similar.length && !reply.retired) return this.#done(() => this.added(reply.label, false));
    this.#shown = this.#query;
    const meant = remark(
      reply.retired ? `“${reply.label}” is retired; choose another label` : "Is one of these meant?",
    );
    this.#list([], meant, ...reply.similar.map((item) => this.#option(item)));
    if (!reply.retired) this.list.append(addition(reply.label, "all the same"));
    for (const [place, option] of this.#options().entries()) option.id = `found-${place}`;
    this.#move(0);
    this.count.textContent = this.list.textContent;
  }

  #options() {
    return [...this.list.querySelectorAll("[role=option]")];
  }

  #move(to) {
    const options = this.#options();
    options[this.#at]?.setAttribute("aria-selected", "false");
    this.#at = options.length ? (to + options.length) % options.length : -1;
    const option = options[this.#at];
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
    if (composing(event)) return;
    const open = !this.list.hidden;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (open) this.#move(this.#at + (event.key === "ArrowDown" ? 1 : -1));
      else this.#later();
    } else if (event.key === "Enter" && event.shiftKey && this.#query.trim()) {
      clearTimeout(this.#timer);
      this.#add(this.#query.trim());
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

  #take({ dataset }) {
    if (dataset.add === undefined) this.#done(() => this.picked(dataset.label, dataset.kind));
    else if (dataset.insist) this.#done(() => this.added(dataset.add, true));
    else this.#add(dataset.add);
  }

  #done(act) {
    act();
    this.clear();
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
      const { label, kind } = target.closest("button")?.dataset ?? {};
      if (label === undefined) return;
      this.picked(label, kind);
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

  /** The labels that the policy requires beside a label, the nearest first. */
  beside(label) {
    const parent = this.#notes.get(this.#notes.get(label)?.beside);
    return parent ? [parent, ...this.beside(parent.label)] : [];
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
        "data-kind": one.kind ?? "",
        title: one.guideline ?? "",
        "aria-pressed": this.chosen(one.label),
      },
      title(one),
    );
  }
}

const title = ({ label, name }) => (name ? `${label} ${name}` : label);

const remark = (text) => element("li", { class: "more", role: "presentation" }, text);

/** The line that adds what was typed as a new label. */
function addition(label, insist = "") {
  const text = `Add “${label}” as a new label${insist && ` ${insist}`}`;
  return element(
    "li",
    { class: "addition", role: "option", dir: "auto", "data-add": label, "data-insist": insist, "aria-selected": false },
    text,
    element("kbd", { "aria-hidden": "true" }, insist ? "⏎" : "⇧⏎"),
  );
}
