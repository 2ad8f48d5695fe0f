// The document as it was written: shown as plain text, searched, and marked without touching it.
// Marks are CSS highlights over ranges, so a long text stays one node and nothing in it is markup.

const MOST_FOUND = 2000;
const MOST_FEATURES = 300;

const marks = "highlights" in CSS ? CSS.highlights : null;

function mark(name, ranges) {
  if (!marks) return;
  if (ranges.length) marks.set(name, new Highlight(...ranges));
  else marks.delete(name);
}

const quoted = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

export class Sheet {
  #found = [];
  #at = -1;

  constructor(element) {
    this.element = element;
  }

  show({ text, features }) {
    for (const name of ["desk-find", "desk-found", "desk-for", "desk-against"]) mark(name, []);
    this.#found = [];
    this.element.dir = "auto";
    if (text !== null && text !== undefined) this.element.replaceChildren(text);
    else this.element.replaceChildren(featureTable(features ?? {}));
    this.element.scrollTop = 0;
  }

  /** Mark every place of a text; returns how many there are. */
  find(wanted) {
    this.#found = wanted.trim() ? this.#ranges(new RegExp(quoted(wanted.trim()), "giu")) : [];
    this.#at = -1;
    mark("desk-find", this.#found);
    mark("desk-found", []);
    return this.#found.length;
  }

  /** Go to the next place, or the one before; returns its number from 1, 0 if there is none. */
  step(by) {
    if (!this.#found.length) return 0;
    const from = this.#at < 0 && by < 0 ? 0 : this.#at;
    this.#at = (from + by + this.#found.length) % this.#found.length;
    const range = this.#found[this.#at];
    mark("desk-found", [range]);
    const place = range.getBoundingClientRect();
    const view = this.element.getBoundingClientRect();
    if (place.top < view.top + 8 || place.bottom > view.bottom - 8)
      this.element.scrollTop += place.top - view.top - this.element.clientHeight / 3;
    return this.#at + 1;
  }

  /** Mark the terms that speak for a label and against it; `[{term, weight}]`. */
  weigh(terms) {
    for (const [name, kept] of [
      ["desk-for", terms.filter((one) => one.weight > 0)],
      ["desk-against", terms.filter((one) => one.weight < 0)],
    ])
      mark(name, kept.flatMap((one) => this.#ranges(wholeWords(one.term))));
  }

  #ranges(pattern) {
    const ranges = [];
    const walk = document.createTreeWalker(this.element, NodeFilter.SHOW_TEXT);
    while (walk.nextNode())
      for (const { index, 0: found } of walk.currentNode.data.matchAll(pattern)) {
        if (!found || ranges.length >= MOST_FOUND) break;
        const range = new Range();
        range.setStart(walk.currentNode, index);
        range.setEnd(walk.currentNode, index + found.length);
        ranges.push(range);
      }
    return ranges;
  }
}

/**
 * A term is one word, two that follow each other, whatever stands between, or, with a star behind,
 * how words begin.
 */
function wholeWords(term) {
  const [, words, cut] = term.match(/^(.*?)(\*?)$/su);
  const inside = words.split(/\s+/u).map(quoted).join("[^\\p{L}\\p{N}]+");
  const rest = cut ? "[\\p{L}\\p{N}]*" : "";
  return new RegExp(`(?<![\\p{L}\\p{N}])${inside}${rest}(?![\\p{L}\\p{N}])`, "giu");
}

function featureTable(features) {
  const named = Object.entries(features).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const table = document.createElement("table");
  table.createTHead().insertRow().append(head("Feature"), head("Value"));
  const body = table.createTBody();
  for (const [name, value] of named.slice(0, MOST_FEATURES)) {
    const row = body.insertRow();
    row.insertCell().append(name);
    row.insertCell().append(String(value));
  }
  const more = named.length - MOST_FEATURES;
  if (more > 0) table.createCaption().append(`The ${MOST_FEATURES} largest; ${more} more.`);
  return table;
}

function head(name) {
  const cell = document.createElement("th");
  cell.scope = "col";
  cell.append(name);
  return cell;
}
