// The document as it was written: shown as plain text, searched, and marked without touching it.
// Marks are CSS highlights over ranges, so a long text stays one node and nothing in it is markup.

import { element } from "./answer.js";

const MOST_FOUND = 2000;
const MOST_ROWS = 300;

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

  show({ text, features, answer, missing }) {
    for (const name of ["desk-find", "desk-found", "desk-for", "desk-against"]) mark(name, []);
    this.#found = [];
    this.element.dir = "auto";
    if (text !== null && text !== undefined) this.element.replaceChildren(text);
    else if (features)
      this.element.replaceChildren(table("Feature", "Value", Object.entries(features), Math.abs));
    else this.element.replaceChildren(...withoutText(answer, missing));
    this.element.scrollTop = 0;
  }

  /** Mark every place of a text; returns how many there are. */
  find(wanted) {
    this.#found = wanted.trim() ? this.#ranges(matchesOf(wanted.trim())) : [];
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
      mark(name, this.#ranges(placesOf(new Set(kept.map((one) => one.term)))));
  }

  /** The ranges of the places, `[start, end]`, that a function yields of each text. */
  #ranges(places) {
    const ranges = [];
    const walk = document.createTreeWalker(this.element, NodeFilter.SHOW_TEXT);
    while (walk.nextNode())
      for (const [start, end] of places(walk.currentNode.data)) {
        if (ranges.length >= MOST_FOUND) break;
        const range = new Range();
        range.setStart(walk.currentNode, start);
        range.setEnd(walk.currentNode, end);
        ranges.push(range);
      }
    return ranges;
  }
}

/** A document's file: an image or a PDF in place, with a link, or why it is not opened. */
export function attached(attachment) {
  if (!attachment) return [];
  const { host, url, shown } = attachment;
  if (!url) return [`There is an attachment at ${host}, which may not be opened from here.`];
  const attributes = { href: url, target: "_blank", rel: "noopener noreferrer" };
  const link = element("a", attributes, `Attachment at ${host}`);
  if (!shown) return [link];
  if (shown === "pdf")
    return [link, element("object", { type: "application/pdf", data: url, "aria-label": "Attachment" })];
  return [link, element("img", { referrerpolicy: "no-referrer", alt: "Attachment", src: url })];
}

const matchesOf = (wanted) =>
  function* (text) {
    for (const { index, 0: match } of text.matchAll(new RegExp(quoted(wanted), "giu")))
      yield [index, index + match.length];
  };

/**
 * The places of terms. A term is one word, two that follow each other, whatever stands between, or,
 * with a star behind, how words begin.
 */
const placesOf = (terms) =>
  function* (text) {
    const placed = terms.size ? [...placedWords(text)] : [];
    for (const [place, [word, start, end]] of placed.entries()) {
      const next = placed[place + 1];
      if (next && terms.has(`${word} ${next[0]}`)) yield [start, next[2]];
      else if (terms.has(word) || begins(word, terms)) yield [start, end];
    }
  };

const begins = (word, terms) =>
  [...word].some((_, length, letters) => terms.has(`${letters.slice(0, length + 1).join("")}*`));

// What a word is, as in `setwise/characters.py`: a run of a script without spaces, or letters,
// digits and marks with the dots of a code and the signs of a name.
const UNSEEN = "\\u00ad\\u034f\\u200c\\u200d\\u2060\\ufeff\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}";
const SPACELESS = ["Hani", "Hira", "Kana", "Bopo", "Thai", "Laoo", "Khmr", "Mymr", "Lana", "Tale", "Talu", "Tavt"];
const RUN = `(?=[\\p{L}\\p{Nl}])[${SPACELESS.map((script) => `\\p{sc=${script}}`).join("")}\\u30fc]`;
const LETTER = `(?!${RUN})[\\p{L}\\p{N}_]`;
const MARK = `[\\p{M}${UNSEEN}]`;
const WORD = new RegExp(
  `${LETTER}(?:${LETTER}|${MARK})*(?:\\.(?=[0-9])(?:${LETTER}|${MARK})+)*(?:(?:\\+\\+|#)(?!${LETTER}))?` +
    `|(?<run>(?:${RUN}${MARK}*)+)`,
  "gu",
);
const CHARACTER = new RegExp(`.${MARK}*`, "gsu");

const normalised = (text) =>
  text
    .replace(new RegExp(`[${UNSEEN}]`, "gu"), "")
    .normalize("NFKC")
    .toLowerCase()
    .replaceAll("i\u0307", "i");

/** The words of a text, each with its place: `[word, start, end]`. */
export function* placedWords(text) {
  for (const { index, 0: match, groups } of text.matchAll(WORD)) {
    const characters = groups.run ? [...match.matchAll(CHARACTER)] : [];
    if (characters.length < 2) yield [normalised(match), index, index + match.length];
    for (const [place, second] of characters.slice(1).entries()) {
      const first = characters[place];
      const end = second.index + second[0].length;
      yield [normalised(match.slice(first.index, end)), index + first.index, index + end];
    }
  }
}

/** What there is of a document without a text: that it is missing, and another model's answer. */
function withoutText(answer, missing) {
  const shown = [element("p", { class: "empty" }, missing)];
  const { scores, candidates, labels } = answer ?? {};
  const sets = candidates ?? (labels ? [{ labels }] : []);
  if (scores) shown.push(table("Label", "Probability by the other model", Object.entries(scores)));
  const rows = sets.map((one) => [one.labels.join(", ") || "No labels", one.score ?? ""]);
  if (rows.length) shown.push(table("Labels by the other model", "Score", rows));
  return shown;
}

function table(name, value, rows, size = Number) {
  const sorted = [...rows].sort((a, b) => size(b[1]) - size(a[1]));
  const heads = [name, value].map((head) => element("th", { scope: "col" }, head));
  const body = sorted
    .slice(0, MOST_ROWS)
    .map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, String(cell)))));
  const made = element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...body),
  );
  const more = sorted.length - MOST_ROWS;
  if (more > 0) made.createCaption().append(`The ${MOST_ROWS} largest; ${more} more.`);
  return made;
}
