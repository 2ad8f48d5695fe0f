// The answer side of the desk: suggested sets as cards, and the set that is being made as chips.
// Everything that comes from documents and models is added as text, never as markup.

const MOST_CARDS = 9;
const ALWAYS_SHOWN = 4;
const LEAST_CONFIDENCE = 0.01;
const MOST_CHIPS = 8;
const LEAST_PROBABILITY = 0.01;
const LEAST_SHARE_OF_WEIGHT = 0.1;
const MOST_TERMS = 12;

const signs = { same: "", added: "+", removed: "−" };
const spoken = { same: "", added: "added: ", removed: "left out: " };

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** A label as people read it; one that is in no list has no name. */
export const named = (label) => label || "a label that is in no list";

/** A label set as people read it, in a line. */
export const inLine = (labels) => labels.map(named).join(", ") || "no labels";

const TAGS = { new: "new", proposed: "proposed", accepted: "catalogue", retired: "retired" };

/** What marks a label that the model lacks: `new`, or its state in the catalogue. */
export function mark(kind) {
  return kind in TAGS ? [" ", element("small", { class: "mark-of" }, TAGS[kind])] : [];
}

export function percent(share) {
  const whole = Math.round(100 * share);
  if (share > 0 && whole === 0) return "< 1 %";
  return share < 1 && whole === 100 ? "> 99 %" : `${whole} %`;
}

/** What `to` has, and what only `from` has: `[{label, kind}]`, first what both have. */
export function difference(from, to) {
  const before = new Set(from);
  const after = new Set(to);
  return [
    ...to.map((label) => ({ label, kind: before.has(label) ? "same" : "added" })),
    ...from.filter((label) => !after.has(label)).map((label) => ({ label, kind: "removed" })),
  ].sort((a, b) => Object.keys(signs).indexOf(a.kind) - Object.keys(signs).indexOf(b.kind));
}

/** The sets to choose from: answers that differ and all together, or the model's suggestions. */
export function offers(item) {
  if (item.answers) {
    const sets = item.answers.map((labels) => ({ labels, warnings: [] }));
    const every = [...new Set(item.answers.flat())];
    const given = item.answers.some((labels) => labels.length === every.length);
    return given ? sets : [...sets, { labels: every, warnings: [], title: bothOrAll(item) }];
  }
  return (item.candidates ?? [])
    .slice(0, MOST_CARDS)
    .filter((one, place) => place < ALWAYS_SHOWN || one.confidence >= LEAST_CONFIDENCE);
}

const bothOrAll = (item) => (item.answers.length > 2 ? "All" : "Both");

/** The labels that all answers have; those of a single answer are its own. */
function shared(item) {
  const [first, ...others] = item.answers ?? [];
  return others.length ? first.filter((label) => others.every((one) => one.includes(label))) : [];
}

/** What all answers have, which their cards leave out, as a line to read; empty if nothing. */
export function sharedLine(item) {
  const labels = shared(item);
  if (!labels.length) return [];
  const words = element("span", { class: "quiet" }, `${bothOrAll(item)} answers have`);
  return [words, ...labels.flatMap((label) => [" ", labelled(label, "same", "shared", item.beyond ?? {})])];
}

export function cards(item) {
  const sets = offers(item);
  // What answers share stands above them; what a suggestion shares with the first, in "Your set".
  const from = item.answers ? shared(item) : sets[0]?.labels;
  const nothing = item.answers ? "Nothing more" : "As suggested";
  return sets.map((set, place) => {
    const parts = difference(from, set.labels).filter(({ kind }) => kind !== "same");
    return card(set, parts, place, item.beyond ?? {}, nothing, sets[place - 1]?.confidence);
  });
}

/** A label of a set; `where` it stands tells whether it was on the screen there. */
function labelled(label, kind, where, beyond) {
  const part = element("span", { class: `label ${kind}`, dir: "auto" }, named(label));
  part.dataset.seen = `${where} ${label}`;
  if (signs[kind]) {
    part.prepend(
      element("span", { class: "sign", "aria-hidden": "true" }, signs[kind]),
      element("span", { class: "unseen" }, spoken[kind]),
    );
  }
  part.append(...mark(beyond[label]));
  return part;
}

/**
 * A set to submit, by the parts that set it apart; `nothing` is said of one without any. `before`
 * is the confidence of the set above, if there is one.
 */
function card(set, parts, place, beyond, nothing, before) {
  const labels = element("span", { class: "labels" });
  if (set.title) labels.append(element("span", { class: "quiet" }, set.title), " ");
  if (set.labels.length && !parts.length)
    labels.append(element("span", { class: "quiet" }, nothing), element("span", { class: "unseen" }, `: ${inLine(set.labels)}`));
  for (const { label, kind } of parts) labels.append(labelled(label, kind, place, beyond), " ");
  if (!set.labels.length) labels.prepend(element("span", { class: "label empty-set" }, "No labels"), " ");
  const accept = element(
    "button",
    { type: "button", class: "accept", "data-place": place, "aria-keyshortcuts": place + 1 },
    element("kbd", { "aria-hidden": "true" }, String(place + 1)),
    labels,
  );
  if (set.confidence !== undefined) {
    const fill = element("span", { class: "fill" });
    fill.style.width = `${100 * set.confidence}%`;
    const gauge = element("span", { class: "gauge", "aria-hidden": "true" }, fill);
    const odd = element("span", { class: "odd" });
    if (set.warnings.length) {
      odd.append(element("span", { "aria-hidden": "true" }, "⚠"), element("span", { class: "unseen" }, set.warnings.join(" ")));
      odd.title = set.warnings.join("\n");
    }
    const share = percent(set.confidence);
    const equal = before !== undefined && percent(before) === share;
    const title = equal ? { title: "About as likely as the set above, which has the higher score" } : {};
    accept.append(odd, gauge, element("span", { class: "percent", ...title }, equal ? `= ${share}` : share));
  }
  const edit = element(
    "button",
    {
      type: "button",
      class: "plain edit",
      "data-place": place,
      "aria-label": `Edit set ${place + 1}`,
      title: `Edit this set first (Shift+${place + 1})`,
    },
    "✎",
  );
  return element("li", { class: "offer" }, accept, edit);
}

/** The labels of the set that is being made, and those that were considered. */
export class Choice {
  constructor(item, draft) {
    // Between two answers neither is preselected, nor marked as the model's.
    const open = item.answers !== null;
    this.first = open ? [] : (item.candidates?.[0]?.labels ?? []);
    this.chosen = new Set(draft?.labels ?? this.first);
    this.asked = false; // whether no labels at all are meant
    // Labels that the model lacks: "new" for those that are added here, else their state.
    this.beyond = { ...item.beyond, ...draft?.beyond };
    this.insist = draft?.insist ?? false; // whether near-duplicates were seen and are not meant
    this.probability = new Map(
      open ? [] : (item.marginals ?? []).map((m) => [m.label, m.probability]),
    );
    this.all = false;
    this.past = []; // the sets before each change, to go back to
    const likely = [...this.probability].filter(([, p]) => p >= LEAST_PROBABILITY);
    this.order = new Set([
      ...this.first,
      ...(item.answers ?? []).flat(),
      ...likely.map(([label]) => label),
      ...this.chosen,
    ]);
  }

  get labels() {
    return [...this.order].filter((label) => this.chosen.has(label));
  }

  get changed() {
    return difference(this.first, this.labels).some((part) => part.kind !== "same");
  }

  /** What is kept of it, and sent. */
  get draft() {
    const { labels, beyond, insist } = this;
    return { labels, beyond, insist };
  }

  /** Whether the model knows a label and so may have words for it. */
  explainable(label) {
    return label !== "" && !(label in this.beyond);
  }

  /**
   * Add a label, or remove it; returns whether it is chosen now. `kind` as in `beyond`; `along` are
   * the labels that an added one brings, as `[{label, kind}]`.
   */
  toggle(label, kind, along = []) {
    const chosen = new Set(this.chosen);
    if (!chosen.delete(label))
      for (const each of [{ label, kind }, ...along]) {
        chosen.add(each.label);
        if (each.kind) this.beyond = { ...this.beyond, [each.label]: each.kind };
      }
    this.take([...chosen]);
    return chosen.has(label);
  }

  take(labels) {
    this.past.push(this.chosen);
    for (const label of labels) this.order.add(label);
    this.chosen = new Set(labels);
  }

  /** Take the last change back. */
  undo() {
    this.chosen = this.past.pop();
  }

  /** The set that is submitted, then what was suggested, then what was considered. */
  chips(explainable) {
    const first = new Set(this.first);
    const listed = [...this.order];
    const open = listed.filter((label) => !this.chosen.has(label));
    const kept = [...this.labels, ...open.filter((label) => first.has(label))];
    const rest = open.filter((label) => !first.has(label));
    const shown = this.all ? rest : rest.slice(0, Math.max(0, MOST_CHIPS - kept.length));
    const made = [...kept, ...shown].map((label) => this.#chip(label, first.has(label), explainable));
    const hidden = rest.length - shown.length;
    if (hidden > 0)
      made.push(
        element("li", {}, element("button", { type: "button", class: "plain all" }, `${hidden} more`)),
      );
    return made;
  }

  #chip(label, suggested, explainable) {
    const chosen = this.chosen.has(label);
    const kind = chosen ? (suggested ? "kept" : "added") : suggested ? "removed" : "other";
    const sign = { kept: "✓", added: "✓", removed: "−", other: "+" }[kind];
    const chip = element(
      "button",
      { type: "button", class: `chip ${kind}`, "aria-pressed": chosen, "data-label": label },
      element("span", { class: "sign", "aria-hidden": "true" }, sign),
      element("span", { class: "name", dir: "auto" }, named(label)),
      ...mark(this.beyond[label]),
    );
    if (chosen || suggested) chip.dataset.seen = `chosen ${label}`;
    const probability = this.probability.get(label);
    if (probability !== undefined)
      chip.append(" ", element("span", { class: "percent" }, percent(probability)));
    if (kind === "removed") chip.append(element("span", { class: "unseen" }, ", suggested"));
    if (!explainable || !this.explainable(label)) return element("li", {}, chip);
    const attributes = { type: "button", class: "why", "data-label": label };
    const spoken = { "aria-label": `Why ${label}?`, title: "Words for and against" };
    return element("li", {}, chip, element("button", { ...attributes, ...spoken }, "?"));
  }
}

/** The terms that matter: a long document has many that add next to nothing. */
export function telling(terms) {
  const least = LEAST_SHARE_OF_WEIGHT * Math.max(...terms.map((one) => Math.abs(one.weight)), 0);
  return terms.filter((one) => Math.abs(one.weight) >= least).slice(0, MOST_TERMS);
}

/** How strongly a term speaks, as on a document's page. */
const strength = (weight) =>
  Math.abs(weight) >= 1 ? "strong" : Math.abs(weight) >= 0.3 ? "moderate" : "weak";

/** Which terms speak for a label and against it, as a line to read. */
export function termLines(label, terms) {
  return [
    ["for", "For", terms.filter((one) => one.weight > 0)],
    ["against", "Against", terms.filter((one) => one.weight < 0)],
  ].map(([kind, words, kept]) =>
    element(
      "p",
      { class: kind },
      element("strong", {}, `${words} `),
      element("span", { dir: "auto" }, label),
      ": ",
      kept.length
        ? element(
            "span",
            {},
            ...kept.flatMap((one, place) => [
              place ? ", " : "",
              element("mark", { class: kind, dir: "auto" }, one.term),
              ` (${strength(one.weight)})`,
            ]),
          )
        : "nothing in this document",
    ),
  );
}
