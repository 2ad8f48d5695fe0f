// The review desk. Reading should be the only thing that takes time: the next document is there
// before it is asked for, decisions are sent behind the reader's back, and nothing typed is lost.

import {
  Choice,
  cards,
  element,
  inLine,
  named,
  offers,
  percent,
  sharedLine,
} from "./desk/answer.js";
import { drafts } from "./desk/keep.js";
import { listen } from "./desk/keys.js";
import { Lease } from "./desk/lease.js";
import { clearNotices, notice, say, signedOut, state, trouble, ui } from "./desk/notices.js";
import { Guide, Picker } from "./desk/picker.js";
import { Progress } from "./desk/progress.js";
import { Queue } from "./desk/queue.js";
import { Reading } from "./desk/reading.js";
import { inSight, lookAfresh, watch } from "./desk/sight.js";
import { askWhy, onReason } from "./desk/skip.js";
import { Sheet, attached } from "./desk/text.js";
import { Warnings } from "./desk/warnings.js";

const LOOK_AGAIN_MS = 10_000;
// A second press within this time was meant for the document that has just gone.
const SHOWN_AT_LEAST_MS = 250;

const { prioritized, ...wanted } = Object.fromEntries(
  [...new URLSearchParams(location.search)].filter(
    ([name, value]) => value && ["segment", "label", "prioritized"].includes(name),
  ),
);
const queue = new Queue({ ...wanted, prioritized: Boolean(prioritized) });
const sheet = new Sheet(ui.text);
const reading = new Reading(sheet, queue);
const progress = new Progress(queue);
const warnings = new Warnings();
const lease = new Lease(queue, () => go());
let choice = null;
let shownAt = 0;
let lookAgain = 0;
let paused = false;
let busy = false;

const isChosen = (label) => Boolean(choice?.chosen.has(label));

/**
 * Add a label, with those that must be beside it, or remove it; `kind` tells what it is if the model
 * lacks it.
 */
function picked(label, kind) {
  const along = guide.beside(label).filter((one) => !isChosen(one.label));
  const added = choice.toggle(label, kind, along);
  const brought = added && along.length ? ` with ${inLine(along.map((one) => one.label))}` : "";
  const needing = choice.labels.filter((one) => guide.beside(one).some((above) => above.label === label));
  changed();
  const required = added || !needing.length ? "" : `, though required by ${inLine(needing)}`;
  say(`${named(label)} ${added ? "added" : "removed"}${brought}${required}.`);
}

/** Add a label that is in no list; `insist` tells that near-duplicates were seen and are not meant. */
function added(label, insist) {
  if (insist) choice.insist = true;
  if (!isChosen(label)) picked(label, "new");
}

const guide = new Guide({ line: ui.guideline, tree: ui.tree, picked, chosen: isChosen });
const picker = new Picker({
  input: ui.pick,
  list: ui.found,
  count: ui.foundCount,
  picked,
  added,
  chosen: isChosen,
  shown: (label) => guide.tell(label),
  failed: (error) => trouble(error),
});

function browse() {
  if (ui.browse.hidden)
    return notice("browse", "The labels have no parents, so there is no tree to browse. Press / to search.");
  guide.browse();
  return ui.treeDialog.showModal();
}

guide.load().then(
  (hierarchy) => (ui.browse.hidden = !hierarchy),
  () => {}, // Notes are a help; labels can be chosen without.
);

// Showing

function show(item) {
  clearTimeout(lookAgain);
  paused = false;
  const draft = drafts.of(item.id);
  choice = new Choice(item, draft);
  reading.begin();
  ui.rest.hidden = true;
  ui.work.hidden = false;
  ui.work.dataset.task = item.id;
  ui.documentName.textContent = item.document.id ?? "Untitled document";
  ui.why.textContent = item.why ?? "";
  ui.why.hidden = !item.why;
  ui.urgency.textContent = item.urgency;
  ui.urgency.hidden = !item.urgency;
  ui.skips.hidden = !item.skips;
  ui.skips.replaceChildren(...(item.skips ?? []).map((text) => element("li", { dir: "auto" }, text)));
  showMetadata(item.document.metadata);
  sheet.show(item.document);
  ui.attachment.hidden = !item.document.attachment;
  ui.attachment.replaceChildren(...attached(item.document.attachment));
  ui.comment.value = draft?.comment ?? "";
  fitComment();
  picker.clear();
  guide.tell(null);
  const sets = offers(item);
  ui.suggestions.hidden = !sets.length;
  ui.suggestionsTitle.textContent = titleOf(item, sets);
  ui.confidenceTerm.hidden = Boolean(item.answers);
  // Between two answers nothing is chosen yet; otherwise what Enter submits stands first.
  ui.chosen[item.answers ? "before" : "after"](ui.suggestions);
  lookAfresh();
  const line = sharedLine(item);
  ui.shared.replaceChildren(...line);
  ui.shared.hidden = !line.length;
  ui.cards.replaceChildren(...cards(item));
  watch(ui.suggestions);
  ui.withheld.textContent = item.withheld;
  ui.withheld.hidden = sets.length > 0;
  ui.restore.textContent = choice.first.length ? "Back to the suggestion" : "Start over";
  render();
  for (const kind of ["item", "empty", "unseen", "browse"]) clearNotices(kind);
  if (draft && draft.version !== item.version)
    notice("item", "You had this document before. Your earlier choice is restored.");
  lease.show();
  shownAt = performance.now();
  window.scrollTo(0, 0);
  ui.text.focus({ preventScroll: true });
  say(spokenSummary(item, sets));
}

function titleOf(item, sets) {
  if (!item.answers) return "Most likely sets";
  return sets.length > 1 ? "Answers that differ" : "Answer so far";
}

function spokenSummary(item, sets) {
  const name = item.document.id ?? "A document";
  if (item.answers)
    return `${name}. ${titleOf(item, sets)}: ${item.answers.length}; your answer decides. ${ui.shared.textContent}`;
  if (!sets.length) return `${name}. Choose the labels that apply.`;
  const first = inLine(sets[0].labels);
  return `${name}. ${sets.length} sets; likeliest: ${first}, ${percent(sets[0].confidence)}.`;
}

function showMetadata(metadata) {
  const entries = Object.entries(metadata ?? {});
  ui.metadata.hidden = !entries.length;
  ui.metadata.replaceChildren(
    ...entries.map(([name, value]) =>
      element(
        "div",
        {},
        element("dt", { dir: "auto" }, name),
        element("dd", { dir: "auto" }, typeof value === "string" ? value : JSON.stringify(value)),
      ),
    ),
  );
}

function render() {
  const focused = document.activeElement?.closest?.("#chips button");
  const label = focused?.dataset.label;
  const kind = focused?.classList.contains("why") ? "why" : "chip";
  ui.chips.replaceChildren(...choice.chips(queue.current.candidates !== null));
  watch(ui.chips);
  if (label !== undefined)
    [...ui.chips.querySelectorAll(`.${kind}`)].find((one) => one.dataset.label === label)?.focus();
  ui.none.hidden = choice.labels.length > 0;
  ui.missing.setAttribute("aria-pressed", isChosen(""));
  ui.noneFits.setAttribute("aria-pressed", onlyMissing());
  ui.restore.hidden = !choice.changed;
  ui.submit.replaceChildren(
    choice.asked ? "Submit no labels " : "Submit ",
    element("kbd", {}, "⏎"),
  );
  warnings.look(queue.current, choice);
}

/** Something was chosen or typed: keep it, and look whether it is odd. */
function changed() {
  choice.asked = false;
  clearNotices("empty");
  keep();
  render();
}

function keep() {
  const { id, version } = queue.current;
  drafts.keep(id, { version, ...choice.draft, comment: ui.comment.value });
}

// Deciding

/** Whether a decision would be meant for what is in hand now. */
function ready() {
  const item = queue.current;
  return item && !item.lost && !busy && performance.now() - shownAt > SHOWN_AT_LEAST_MS;
}

/** Submit the chosen set; that no label applies must be meant, not missed. */
function submitChosen() {
  if (!ready()) return;
  if (choice.labels.length || choice.asked) return submit(choice.draft, ui.chips);
  choice.asked = true;
  render();
  notice("empty", "No labels chosen. If none apply, submit again.");
}

/** Submit what a `Choice` keeps, or the labels of a card; the page shows them in `set`. */
function submit(answer, set) {
  if (!ready() || !inSight(set)) return;
  warnings.stop();
  queue.decide(answer, ui.comment.value.trim() ? ui.comment.value : null);
  progress.add(1);
  progress.load();
  progress.showUndo();
  go();
}

async function go() {
  busy = true;
  try {
    if (!queue.ready) ui.work.setAttribute("aria-busy", "true");
    const item = await queue.advance();
    if (item) show(item);
    else empty();
  } catch (error) {
    trouble(error, () => go());
  } finally {
    busy = false;
    ui.work.removeAttribute("aria-busy");
  }
}

/** Take back what was done last: a change of the labels in hand, else the last act. */
function undo() {
  if (!choice?.past.length) return undoAct();
  choice.undo();
  changed();
  return say(`Undone. Your set: ${inLine(choice.labels)}.`);
}

async function undoAct() {
  const [last] = queue.undoable;
  if (busy || !last) return;
  busy = true;
  try {
    const item = await queue.undo();
    progress.add(last.kind === "submitted" ? -1 : 0);
    progress.showUndo();
    show(item);
    say("Undone. " + (item.document.id ?? ""));
  } catch (error) {
    progress.showUndo();
    trouble(error);
  } finally {
    busy = false;
  }
}

/** Part with the document in hand by `act`, and go on. */
async function leave(act) {
  if (!queue.current || busy) return;
  busy = true;
  warnings.stop();
  try {
    await act();
    busy = false;
    progress.showUndo();
    await go();
  } catch (error) {
    trouble(error, () => leave(act));
  } finally {
    busy = false;
  }
}

const skip = (reason) => leave(() => queue.skip(reason));
const openSkip = () => queue.current && askWhy();
const later = () => leave(() => queue.postpone());

// Resting

function rest(title, text, button, act) {
  choice = null;
  ui.work.hidden = true;
  ui.lease.hidden = true;
  ui.rest.hidden = false;
  ui.restTitle.textContent = title;
  ui.restText.textContent = text;
  ui.resume.textContent = button;
  ui.resume.onclick = act;
  clearNotices("item");
  say(`${title}. ${text}`);
}

function empty() {
  const everything = Object.values(queue.wanted).every((one) => !one);
  rest(
    everything ? "No documents to review" : "No documents in this queue",
    "New documents appear here automatically. Documents that two reviewers have skipped wait " +
      "for a lead.",
    "Check now",
    go,
  );
  clearTimeout(lookAgain);
  lookAgain = setTimeout(() => (document.hidden ? empty() : go()), LOOK_AGAIN_MS);
}

async function pause() {
  if (busy || paused) return;
  paused = true;
  clearTimeout(lookAgain);
  rest(
    "Paused",
    "Your documents are back in the queue for others. Your choices and comments are kept in " +
      "this tab.",
    "Resume",
    () => go(),
  );
  ui.resume.focus();
  await queue.pause();
}

// Hands

function fitComment() {
  ui.comment.rows = Math.min(6, ui.comment.value.split("\n").length);
}

ui.cards.addEventListener("click", ({ target, detail }) => {
  const button = target.closest("button");
  if (!button || detail > 1) return; // the second half of a double click
  const { labels } = offers(queue.current)[button.dataset.place];
  if (button.classList.contains("accept")) submit({ labels: [...labels] }, button);
  else {
    choice.take(labels);
    changed();
  }
});

ui.chips.addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (!button) return;
  if (button.classList.contains("all")) {
    choice.all = true;
    render();
    ui.chips.querySelector("li:last-child button")?.focus();
  } else if (button.classList.contains("why")) {
    reading.explain(button.dataset.label);
  } else {
    picked(button.dataset.label);
  }
});

ui.chips.addEventListener("focusin", ({ target }) => guide.tell(target.dataset.label));
ui.browse.addEventListener("click", browse);
ui.missing.addEventListener("click", toggleMissing);
ui.noneFits.addEventListener("click", noneFits);

/** Say that a label applies which is in no list, besides those of the set, or take that back. */
function toggleMissing() {
  if (choice) picked("");
}

/** Empty the set: what applies is in no list. */
function noneFits() {
  if (!choice || onlyMissing()) return;
  choice.take([""]);
  changed();
  say("None of the known labels fits. Your set has only a label that is in no list.");
}

const onlyMissing = () => choice.labels.length === 1 && isChosen("");

ui.chips.addEventListener("keydown", (event) => {
  const { label } = event.target.closest(".chip")?.dataset ?? {};
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (step) {
    const all = [...ui.chips.querySelectorAll(".chip")];
    all.at((all.findIndex((one) => one === event.target) + step) % all.length)?.focus();
  } else if ((event.key === "Delete" || event.key === "Backspace") && choice.chosen.has(label)) {
    picked(label);
  } else return;
  event.preventDefault();
});

/** Go to the next label of the set, where Delete removes it. */
function toNextChosen() {
  const chosen = [...ui.chips.querySelectorAll(".chip[aria-pressed=true]")];
  const here = document.activeElement;
  const after = chosen.find((one) => here.compareDocumentPosition(one) & 4 && ui.chips.contains(here));
  (after ?? chosen[0])?.focus();
}

ui.comment.addEventListener("input", () => {
  fitComment();
  keep();
});
ui.submit.addEventListener("click", ({ detail }) => {
  if (detail <= 1) submitChosen();
});
ui.restore.addEventListener("click", () => {
  choice.take(choice.first);
  changed();
  ui.text.focus({ preventScroll: true });
});
ui.undo.addEventListener("click", undoAct);
ui.pause.addEventListener("click", pause);

ui.later.addEventListener("click", later);
ui.skip.addEventListener("click", openSkip);
onReason(skip);

const acts = {
  add: () => ui.pick.focus(),
  find: () => ui.findText.focus(),
  remove: toNextChosen,
  comment: () => ui.comment.focus(),
  skip: openSkip,
  later,
  undo,
  pause,
  words: () => reading.explainNext(choice),
  browse,
  missing: toggleMissing,
  none: noneFits,
};

/** Submit a suggested set by its number, or copy it to change it; return whether there is one. */
function pick(number, copied) {
  const offer = offers(queue.current)[number - 1];
  if (!offer) return false;
  if (copied) {
    choice.take(offer.labels);
    changed();
  } else submit({ labels: [...offer.labels] }, ui.cards.children[number - 1]);
  return true;
}

listen({
  acts,
  atWork: () => Boolean(queue.current),
  submit: submitChosen,
  pick,
  leave: () => ui.text.focus({ preventScroll: true }),
});

queue.addEventListener("state", ({ detail }) => state(detail.state));
queue.addEventListener("signed-out", signedOut);
queue.addEventListener("lost", ({ detail }) => lease.lost(detail.how));
queue.addEventListener("failed", ({ detail: { decision, item, error } }) => {
  progress.add(-1);
  progress.showUndo();
  const what = `${decision.name ?? "Untitled document"}: ${inLine(decision.labels)}`;
  // The labels were refused, for instance because somebody has added a similar one meanwhile.
  const wrong = error.status === 422 || error.type.endsWith("/similar-labels");
  const again = item && wrong ? [["Open again", () => reopen(item)]] : [];
  notice("failed", `Not submitted: ${what}${decision.comment ? ` (${decision.comment})` : ""}. ${error.message}`, ...again);
});

function reopen(item) {
  queue.reopen(item);
  show(item);
}

window.addEventListener("pageshow", ({ persisted }) => {
  // Back from elsewhere: what stands here may not be ours any more.
  if (persisted && queue.current) queue.beat(queue.current).then(() => queue.prefetch());
});

setInterval(() => {
  queue.tick();
  lease.show();
  progress.showUndo();
}, 1000);

ui.desk.hidden = false;
state("saved");
progress.load();
await queue.start();
await go();
